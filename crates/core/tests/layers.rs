//! The heart decides and does nothing: what it is built from must not be able to do I/O, read a
//! clock, draw random numbers or run tasks. Whoever adds a dependency argues here for it.

/// Every dependency with the reason why it is harmless.
const ALLOWED: [(&str, &str); 6] = [
    ("saphyr-parser", "YAML from a string"),
    ("serde", "the stored and printed shapes"),
    ("serde_json", "JSON from a string"),
    ("strsim", "the nearest name"),
    ("thiserror", "error enums"),
    ("ulid", "the text of a run id; its random source is switched off"),
];

/// The names in a section of a manifest. The file is ours: one dependency a line.
fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != format!("[{name}]")).skip(1);
    let own = lines.take_while(|line| !line.starts_with('[')).map(str::trim);
    own.filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(['.', '=', ' ']).next().unwrap_or_default())
        .collect()
}

#[test]
fn the_heart_depends_on_nothing_that_acts() {
    let manifest = include_str!("../Cargo.toml");
    let mut found = section(manifest, "dependencies");
    found.sort_unstable();
    assert_eq!(found, ALLOWED.map(|(name, _)| name));
    for other in ["build-dependencies", "features"] {
        assert_eq!(section(manifest, other), [""; 0], "[{other}]");
    }
    let targets: Vec<&str> = manifest
        .lines()
        .filter(|line| line.starts_with("[target") || line.starts_with("[dependencies."))
        .collect();
    assert_eq!(targets, [""; 0], "dependencies stand in one list");
}

#[test]
fn a_run_id_needs_no_random_source() {
    // Its feature `std` brings the system's random source with it.
    let manifest = include_str!("../../../Cargo.toml");
    let ulid = manifest.lines().find(|line| line.starts_with("ulid ")).unwrap();
    assert!(ulid.contains("default-features = false") && !ulid.contains("\"std\""), "{ulid}");
}
