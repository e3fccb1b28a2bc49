//! The coordinator's side of the door: whoever shows no token, or a wrong one, gets no further.

use std::{
    future::{Future, ready},
    pin::Pin,
    task::{Context, Poll},
};

use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
};
use tower_layer::Layer;

use super::Token;

/// What anybody may ask: whether the process is well.
const OPEN: &str = "/grpc.health.v1.Health/";

/// Lets through who shows the token; everybody where there is none.
#[derive(Clone, Debug)]
pub struct Guard(Option<Token>);

impl Guard {
    /// A guard that asks for `token`.
    #[must_use]
    pub fn new(token: Option<Token>) -> Self {
        Self(token)
    }

    fn refusal<B>(&self, request: &http::Request<B>) -> Option<Status> {
        let token = self.0.as_ref()?;
        if request.uri().path().starts_with(OPEN) {
            return None;
        }
        match request.headers().get(http::header::AUTHORIZATION) {
            None => Some(Status::unauthenticated(
                "this coordinator asks for a token: give --token-file (or ENSEMBLE_TOKEN_FILE)",
            )),
            Some(shown) if token.is_in(shown.as_bytes()) => None,
            Some(_) => Some(Status::unauthenticated(
                "the token is not this coordinator's: compare the files given with --token-file",
            )),
        }
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// A service behind a guard.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S, B> Service<http::Request<B>> for Guarded<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        match self.guard.refusal(&request) {
            Some(status) => Box::pin(ready(Ok(status.into_http()))),
            None => Box::pin(self.inner.call(request)),
        }
    }
}
