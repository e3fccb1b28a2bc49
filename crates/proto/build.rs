//! Generates the wire types and services from `proto/`.

fn main() -> std::io::Result<()> {
    let root = "../../proto";
    let files = ["types", "workforce", "coordinator"].map(|name| format!("{root}/ensemble/v1/{name}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptor =
        std::path::PathBuf::from(std::env::var("OUT_DIR").unwrap_or_default()).join("ensemble.v1.bin");
    tonic_prost_build::configure()
        .file_descriptor_set_path(descriptor)
        .compile_protos(&files, &[root.to_owned()])
}
