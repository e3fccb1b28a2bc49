//! The gRPC services: requests are checked and handed to the actors, answers turned into statuses.
//! No decision is taken here, and nothing is awaited inside an actor.

mod people;
mod repository;
mod workforce;

use ensemble_proto::{
    FRAME_LIMIT, MESSAGE_LIMIT,
    v1::{
        coordinator_server::CoordinatorServer, repository_server::RepositoryServer,
        workforce_server::WorkforceServer,
    },
};
use tonic::{Status, service::Routes};

use crate::CoordinatorHandle;

/// Room for the envelope around a frame or a chunk.
const SLACK: usize = 64 * 1024;

impl CoordinatorHandle {
    /// All services of this coordinator.
    #[must_use]
    pub fn routes(&self) -> Routes {
        let people =
            CoordinatorServer::new(people::People(self.clone())).max_decoding_message_size(MESSAGE_LIMIT);
        let nodes = WorkforceServer::new(workforce::Nodes(self.clone()))
            .max_decoding_message_size(FRAME_LIMIT + SLACK);
        let packs = RepositoryServer::new(repository::Packs(self.clone()))
            .max_decoding_message_size(FRAME_LIMIT + SLACK);
        Routes::new(people).add_service(nodes).add_service(packs)
    }
}

fn malformed(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}
