//! Who gets in, over real sockets: with the token, without one, with a wrong one; in plain text and over
//! TLS, each side with what the other does not expect.
#![allow(clippy::unwrap_used, reason = "test helpers: what fails here shall fail the test")]

use std::net::SocketAddr;

use prost::Message as _;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use time::{Duration, OffsetDateTime};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code, Request, Status,
    codegen::http::uri::PathAndQuery,
    transport::{Identity, Server, ServerTlsConfig},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_prost::ProstCodec;

use super::*;

const SECRET: &str = "0123456789abcdef";

fn token(text: &str) -> Option<Token> {
    Some(Token::new(text).unwrap())
}

/// A server that offers nothing but its health: what is let through is not implemented.
async fn server(token: Option<Token>, tls: Option<ServerTlsConfig>) -> Address {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let mut builder = Server::builder();
    if let Some(tls) = tls {
        builder = builder.tls_config(tls).unwrap();
    }
    let router = builder.layer(Guard::new(token)).add_service(health);
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    format!("localhost:{}", address.port()).parse().unwrap()
}

async fn call(way: Way, path: &str) -> Status {
    let mut client = tonic::client::Grpc::new(way);
    client.ready().await.unwrap();
    let path = PathAndQuery::try_from(path).unwrap();
    client.unary::<(), (), _>(Request::new(()), path, ProstCodec::default()).await.unwrap_err()
}

/// What a caller with this door hears at an address.
async fn heard(door: &Door, address: &Address) -> Result<Status, String> {
    let way = door.connect(address).await.map_err(|refused| refused.to_string())?;
    Ok(call(way, "/ensemble.v1.Repository/Known").await)
}

/// An authority, and a server's certificate of it that is good for so long from now.
fn certified(good_for: Duration) -> (Vec<u8>, ServerTlsConfig) {
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - Duration::days(2), now + good_for);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
    (authority.pem().into_bytes(), ServerTlsConfig::new().identity(identity))
}

#[tokio::test]
async fn every_call_but_health_needs_the_token() {
    let address = server(token(SECRET), None).await;
    let stranger = Door::default().connect(&address).await.unwrap();
    let set = prost_types::FileDescriptorSet::decode(crate::DESCRIPTOR).unwrap();
    let mut calls = 0;
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let status = call(stranger.clone(), &path).await;
                assert_eq!(status.code(), Code::Unauthenticated, "{path}");
                assert!(status.message().contains("--token-file"), "{status}");
                calls += 1;
            }
        }
    }
    assert!(calls >= 9, "{calls} calls found");
    let health = HealthClient::new(stranger).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "{health:?}");
}

#[tokio::test]
async fn the_right_token_lets_in_a_wrong_one_does_not_and_none_is_asked_for_where_there_is_none() {
    let guarded = server(token(SECRET), None).await;
    let right = Door { token: token(SECRET), ca: None };
    assert_eq!(heard(&right, &guarded).await.unwrap().code(), Code::Unimplemented);
    for wrong in ["0123456789abcdeF", "0123456789abcdef0"] {
        let status = heard(&Door { token: token(wrong), ca: None }, &guarded).await.unwrap();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert!(status.message().contains("not this coordinator's"), "{status}");
    }
    let open = server(None, None).await;
    for door in [right, Door::default()] {
        assert_eq!(heard(&door, &open).await.unwrap().code(), Code::Unimplemented);
    }
}

#[tokio::test]
async fn over_tls_the_same_and_what_does_not_fit_is_named() {
    let (ca, tls) = certified(Duration::days(1));
    let address = server(token(SECRET), Some(tls)).await;
    let door = Door { token: token(SECRET), ca: Some(ca.clone()) };
    assert_eq!(heard(&door, &address).await.unwrap().code(), Code::Unimplemented);

    let plain = heard(&Door { ca: None, ..door.clone() }, &address).await.unwrap_err();
    assert!(plain.contains("--tls-ca"), "plain text to a TLS port: {plain}");

    let (other, expired) = certified(-Duration::days(1));
    let stranger = heard(&Door { ca: Some(other.clone()), ..door.clone() }, &address).await.unwrap_err();
    assert!(stranger.contains("--tls-ca"), "another authority: {stranger}");

    let late = server(None, Some(expired)).await;
    let late = heard(&Door { ca: Some(other), ..door.clone() }, &late).await.unwrap_err();
    assert!(late.contains("expired"), "{late}");

    let open = server(None, None).await;
    let open = heard(&door, &open).await.unwrap_err();
    assert!(open.contains("--tls-ca"), "TLS to a plain-text port: {open}");

    let junk = heard(&Door { ca: Some(b"no PEM".to_vec()), ..door }, &address).await.unwrap_err();
    assert!(junk.contains("--tls-ca"), "an authority that is none: {junk}");
}

#[tokio::test]
async fn where_nobody_listens_the_address_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    drop(listener);
    let error = Door::default().connect(&address.parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("refused"), "{error}");
}

#[test]
fn tokens_are_checked_and_never_shown() {
    assert!(matches!(Token::new("short"), Err(BadToken::Short)));
    assert!(matches!(Token::new("two words of some length"), Err(BadToken::Unprintable)));
    assert!(matches!(Token::new(&"x".repeat(5000)), Err(BadToken::Unprintable)));
    let token = Token::new(&format!("  {SECRET}\n")).unwrap();
    assert!(
        !format!("{token:?} {:?} {:?}", token.header(), Guard::new(Some(token.clone()))).contains(SECRET)
    );
}

#[test]
fn addresses_are_a_host_and_a_port() {
    for good in ["10.0.0.7:7843", "box-1.example:80", "[::1]:7843", "localhost:65535"] {
        let address: Address = good.parse().unwrap();
        assert_eq!(address.to_string(), good);
    }
    for bad in ["", "host", ":7843", "host:0", "host:65536", "http://host:1", "[host]:1", "a b:1", "::1:7843"]
    {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
    assert_eq!("[::1]:7843".parse::<Address>().unwrap().host(), "::1");
}
