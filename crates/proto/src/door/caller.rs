//! The caller's side of the door: an address, the token to show, whom to trust, and the connection that
//! comes of them.

use std::{error::Error, fmt, io, str::FromStr, time::Duration};

use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::Token;

/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a silent connection is asked whether it is still there, and how long it has to answer.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(5)];

/// A connection on which each call shows the token, if there is one.
pub type Way = InterceptedService<Channel, Bearer>;

/// Puts the token into each call.
#[derive(Clone, Debug, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// A connection that needs no token: through memory, or a socket that only its owner can open.
#[must_use]
pub fn open(channel: Channel) -> Way {
    InterceptedService::new(channel, Bearer::default())
}

/// Where a coordinator listens: `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The host, as certificates name it: without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address; write HOST:PORT, such as 10.0.0.7:7843 or [::1]:7843")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.chars().take(100).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
        let plain = !host.is_empty()
            && host.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '-' | '_'));
        let inner = host.trim_matches(['[', ']']);
        if !(plain || bracketed && inner.parse::<std::net::Ipv6Addr>().is_ok()) {
            return Err(bad());
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(bad)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// What a caller needs to get in anywhere in its cluster.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// What to show.
    pub token: Option<Token>,
    /// Whom to trust, as PEM; without it connections are in plain text.
    pub ca: Option<Vec<u8>>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("can't reach {address}: {reason}")]
pub struct Refused {
    /// Who was called.
    pub address: Address,
    /// In words, with what helps.
    pub reason: String,
}

impl Door {
    /// A connection on which somebody has answered. It is made again by itself when it breaks.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn connect(&self, address: &Address) -> Result<Way, Refused> {
        let refused = |error: &dyn Error| Refused { address: address.clone(), reason: self.reason(error) };
        let endpoint = self.endpoint(address).map_err(|error| refused(&error))?;
        let channel = endpoint.connect().await.map_err(|error| refused(&error))?;
        // Only an answer tells that the other side speaks as this one does.
        let mut health = HealthClient::new(channel.clone());
        match tokio::time::timeout(PATIENCE, health.check(HealthCheckRequest::default())).await {
            Ok(Err(status)) if status.code() != Code::Unimplemented && status.code() != Code::NotFound => {
                return Err(refused(&status));
            }
            Ok(_) => {}
            Err(_) => return Err(refused(&io::Error::from(io::ErrorKind::TimedOut))),
        }
        let bearer = Bearer(self.token.as_ref().and_then(Token::header));
        Ok(InterceptedService::new(channel, bearer))
    }

    fn endpoint(&self, address: &Address) -> Result<Endpoint, tonic::transport::Error> {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(PATIENCE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE[0])
            .keep_alive_timeout(KEEPALIVE[1])
            .keep_alive_while_idle(true);
        match &self.ca {
            None => Ok(endpoint),
            Some(ca) => {
                let tls = ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(ca))
                    .domain_name(address.host());
                endpoint.tls_config(tls.timeout(PATIENCE))
            }
        }
    }

    /// The innermost cause of an error, and what helps against it.
    fn reason(&self, mut error: &dyn Error) -> String {
        while let Some(source) = error.source() {
            error = source;
        }
        let cause = error.to_string();
        let unreached = ["refused", "unreachable", "dns", "lookup"].iter().any(|word| cause.contains(word));
        match &self.ca {
            _ if unreached => cause,
            None => format!("{cause}; if it speaks TLS, give --tls-ca"),
            Some(_) => format!(
                "{cause}; compare --tls-ca with the coordinator's certificate, and leave it out if it speaks plain text"
            ),
        }
    }
}
