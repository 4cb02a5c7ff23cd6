//! A server of the vendors' APIs on 127.0.0.1 for tests.

mod history;
mod openai;

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the server does with one request.
#[derive(Debug, Clone)]
pub(in crate::model) enum Answer {
    /// A stream of these bytes as server-sent events, in chunks of so many bytes.
    Stream { bytes: Bytes, chunk: usize },
    /// The same, closed after so many bytes.
    Cut { bytes: Bytes, after: usize },
    /// The same, silent after so many bytes.
    Stall { bytes: Bytes, after: usize },
    /// The first bytes and then others, again and again as long as somebody reads: as fast as they are
    /// read, or at a pace.
    Endless { status: u16, kind: &'static str, first: Bytes, again: Bytes, every: Option<Duration> },
    /// Headers and a body.
    Plain { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// The connection is closed without a word.
    HangUp,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(in crate::model) struct Seen {
    pub(in crate::model) line: String,
    pub(in crate::model) headers: BTreeMap<String, String>,
    pub(in crate::model) body: Vec<u8>,
    /// Why the real service would refuse it.
    pub(in crate::model) refused: Option<String>,
}

struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
}

/// Ends with its value.
pub(in crate::model) struct Server {
    pub(in crate::model) url: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    /// Plays the answers in the order of the requests; after the last one it hangs up.
    pub(in crate::model) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let shared =
            Arc::new(Shared { answers: Mutex::new(answers.into_iter().collect()), seen: Mutex::default() });
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (state, end) = (Arc::clone(&shared), stop.clone());
        tasks.clone().spawn(async move {
            while let Some(Ok((stream, _))) = end.run_until_cancelled(listener.accept()).await {
                let (state, end) = (Arc::clone(&state), end.clone());
                tasks.spawn(async move {
                    // A client that goes away is part of many tests.
                    drop(end.run_until_cancelled(connection(stream, &state)).await);
                });
            }
        });
        Self { url, shared, stop }
    }

    /// All requests so far.
    pub(in crate::model) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("seen").clone()
    }

    /// Whatever the real service would have refused.
    pub(in crate::model) fn refusals(&self) -> Vec<String> {
        self.seen().into_iter().filter_map(|s| s.refused).collect()
    }
}

async fn connection(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await? {
        let refused = seen.refused.clone();
        shared.seen.lock().expect("seen").push(seen);
        let answer = match refused {
            Some(why) => Some(refusal(&why)),
            None => shared.answers.lock().expect("answers").pop_front(),
        };
        match answer {
            None | Some(Answer::HangUp) => return Ok(()),
            Some(answer) => write_answer(&mut stream, answer).await?,
        }
    }
    Ok(())
}

fn refusal(why: &str) -> Answer {
    let message = serde_json::Value::from(why);
    let body =
        format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":{message}}}}}"#);
    Answer::Plain { status: 400, headers: Vec::new(), body }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Seen>> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|l| l.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    // Without a length the body would have been sent in chunks: not what a sized body is for.
    let length: usize = match headers.get("content-length") {
        None if line.starts_with("GET ") => 0,
        length => length.and_then(|v| v.parse().ok()).expect("a content-length"),
    };
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    let path = line.split(' ').nth(1).unwrap_or_default();
    let checked = match path {
        _ if line.starts_with("GET ") => Ok(()),
        _ if path.ends_with("/chat/completions") => openai::refuse_chat(&body),
        _ if path.ends_with("/responses") => openai::refuse_responses(&body),
        _ => history::refuse(&headers, &body),
    };
    let refused = checked.err();
    Ok(Some(Seen { line, headers, body, refused }))
}

async fn write_answer(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    let (bytes, chunk, end) = match answer {
        Answer::Plain { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Some\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
            return Ok(());
        }
        Answer::HangUp => return Ok(()),
        Answer::Endless { status, kind, first, again, every } => {
            let head = format!("HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&first).await?;
            let mut pace = every.map(tokio::time::interval);
            loop {
                if let Some(pace) = &mut pace {
                    pace.tick().await;
                }
                stream.write_all(&again).await?;
            }
        }
        Answer::Stream { bytes, chunk } => (bytes, chunk, End::Clean),
        Answer::Cut { bytes, after } => (bytes.slice(..after), usize::MAX, End::Closed),
        Answer::Stall { bytes, after } => (bytes.slice(..after), usize::MAX, End::Silent),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for part in bytes.chunks(chunk.min(bytes.len().max(1))) {
        stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await?;
        stream.write_all(part).await?;
        stream.write_all(b"\r\n").await?;
        stream.flush().await?;
    }
    match end {
        End::Clean => stream.write_all(b"0\r\n\r\n").await,
        End::Closed => stream.shutdown().await,
        End::Silent => std::future::pending().await,
    }
}

enum End {
    Clean,
    Closed,
    Silent,
}
