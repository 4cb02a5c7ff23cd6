//! A call on its way to a server and its answer back.
//!
//! Promises that a call that nobody waits for any more is cancelled at the server, when it is told so.

use super::client::Link;
use super::failure::transport_words;
use crate::tools::context::ProgressSink;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ProgressToken, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the word that a call is cancelled may take.
const CANCEL: Duration = Duration::from_millis(500);

/// Why a call has no result.
pub(super) enum CallError {
    /// The server refused it.
    Refused(String),
    /// The connection ended; how and with which last words.
    Lost(String),
    /// The answer made no sense.
    Odd(String),
}

impl Link {
    /// Sends a call.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        progress: &Arc<dyn ProgressSink>,
    ) -> Result<Call, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = CallToolRequest::new(params);
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(ClientRequest::CallToolRequest(request), options).await;
        let Ok(handle) = sent else { return Err(CallError::Lost(self.last_words().await)) };
        let token = handle.progress_token.clone();
        self.heard.listen(&token, progress);
        Ok(Call { handle: Some(handle), token, link: self.clone() })
    }
}

/// A call on its way.
pub(super) struct Call {
    handle: Option<RequestHandle<RoleClient>>,
    token: ProgressToken,
    link: Link,
}

impl Call {
    /// Waits for the result. May be dropped and called again.
    pub async fn result(&mut self) -> Result<CallToolResult, CallError> {
        let Some(handle) = &mut self.handle else {
            return Err(CallError::Odd("the call is over".to_owned()));
        };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        match answer {
            Ok(Ok(ServerResult::CallToolResult(result))) => Ok(result),
            // Results without content are sent as no result at all by some.
            Ok(Ok(ServerResult::EmptyResult(_))) => Ok(CallToolResult::default()),
            Ok(Ok(ServerResult::InputRequiredResult(_))) => {
                Err(CallError::Odd("it asks for input from a person, which is not supported here".to_owned()))
            }
            Ok(Ok(_)) => Err(CallError::Odd("its answer is no result of a tool".to_owned())),
            Ok(Err(ServiceError::McpError(error))) => Err(CallError::Refused(error.message.to_string())),
            Ok(Err(ServiceError::TransportSend(error))) => Err(CallError::Lost(transport_words(&error))),
            Ok(Err(_)) | Err(_) => Err(CallError::Lost(self.link.last_words().await)),
        }
    }

    /// Tells the server that nobody waits any more.
    pub async fn cancel(mut self, why: &str) {
        if let Some(handle) = self.handle.take() {
            // A connection that is gone needs no word.
            let _ = timeout(CANCEL, handle.cancel(Some(why.to_owned()))).await;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.link.heard.forget(&self.token);
    }
}
