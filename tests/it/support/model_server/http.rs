//! The wire: requests read, replies written, one thread a connection.

use super::cache;
use super::reply::{self, End, Part, Reply, Step};
use super::{Request, Shared, refuse};
use crate::support::world::KEY;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// Names the directory in which exchanges are kept.
const EXCHANGES: &str = "FESTOON_TEST_EXCHANGES";

/// Serves one connection until the client or the reply ends it.
pub fn serve(stream: TcpStream, shared: &Shared) {
    // A client that goes away is part of many tests.
    let _ = converse(stream, shared);
}

fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some((line, headers, raw)) = read(&mut reader)? {
        let goes_on = answer(&mut writer, shared, &line, headers, raw)?;
        if !goes_on {
            return writer.shutdown(std::net::Shutdown::Both);
        }
    }
    Ok(())
}

type Raw = (String, BTreeMap<String, String>, Vec<u8>);

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Raw>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((line.trim_end().to_owned(), headers, body)))
}

fn answer(
    out: &mut TcpStream,
    shared: &Shared,
    line: &str,
    headers: BTreeMap<String, String>,
    raw: Vec<u8>,
) -> io::Result<bool> {
    if line != "POST /v1/messages HTTP/1.1" {
        shared.complain(format!("request line {line:?}"));
        return plain(out, 404, &error_body("not_found_error", "no such address"), &[]);
    }
    if headers.get("x-api-key").map(String::as_str) != Some(KEY) {
        return plain(out, 401, &error_body("authentication_error", "invalid x-api-key"), &[]);
    }
    let body: Value = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    let refused = {
        let mut state = shared.state();
        state.next += 1;
        let request = Arc::new(Request { number: state.next, headers, raw, body });
        let refused = refuse::request(&request, &state.issued).err();
        if let Some(why) = &refused {
            state.complaints.push(format!("request {}: {why}", request.number));
        }
        state.requests.push(Arc::clone(&request));
        let reply = if refused.is_none() { choose(&mut state, &request) } else { None };
        if refused.is_none() && reply.is_none() {
            state.complaints.push(format!(
                "no reply is left for round {} of {:?} with the input {:?}",
                request.round(),
                request.prompt(),
                request.input()
            ));
        }
        drop(state);
        match reply {
            Some(reply) => return play(out, shared, &request, &reply),
            None => refused,
        }
    };
    let why = refused.unwrap_or_else(|| "the test has no reply for this".to_owned());
    plain(out, 400, &error_body("invalid_request_error", &why), &[])
}

fn choose(state: &mut super::State, request: &Request) -> Option<Arc<Reply>> {
    let free = |r: &&mut super::Rule| (r.always || r.used < r.replies.len()) && r.when.fits(request);
    let rule = state.rules.iter_mut().find(free)?;
    let at = if rule.always { 0 } else { rule.used };
    rule.used += 1;
    Some(Arc::clone(&rule.replies[at]))
}

fn play(out: &mut TcpStream, shared: &Shared, request: &Request, reply: &Reply) -> io::Result<bool> {
    match reply {
        Reply::With(make) => play(out, shared, request, &make(request)),
        Reply::HangUp => Ok(false),
        Reply::Status { status, kind, message, headers } => {
            plain(out, *status, &error_body(kind, message), headers)
        }
        Reply::Message(parts) => message(out, shared, request, parts),
    }
}

fn message(out: &mut TcpStream, shared: &Shared, request: &Request, parts: &[Part]) -> io::Result<bool> {
    let stream = {
        let mut state = shared.state();
        let found = state.cache.look(&cache::parts(&request.raw));
        state.found.push((request.number, found));
        let mut made = state.next;
        let blocks = reply::blocks(parts, || {
            made += 1;
            format!("toolu_{made:08}")
        });
        state.next = made + 1;
        state.issued.note(&blocks);
        if parts.iter().any(|p| matches!(p, Part::Stop("pause_turn"))) {
            state.issued.pause(&blocks);
        }
        let output = blocks.iter().map(|b| b.to_string().len().div_ceil(4)).sum::<usize>();
        let mut usage = json!({ "input_tokens": found.input, "cache_creation_input_tokens": found.creation,
                                "cache_read_input_tokens": found.read, "output_tokens": output });
        let searches = blocks.iter().filter(|b| b["type"] == "server_tool_use").count();
        if searches > 0 {
            usage["server_tool_use"] = json!({ "web_search_requests": searches });
        }
        let id = format!("msg_{:08}", request.number);
        let whole = !parts.iter().any(|p| {
            matches!(p, Part::Cut(_) | Part::End(_) | Part::Stall(_) | Part::Error { .. } | Part::Gate(_))
        });
        if whole {
            state.usage.push((request.body["model"].as_str().unwrap_or_default().to_owned(), usage.clone()));
        }
        let stream = reply::stream(parts, &blocks, &request.body["model"], &id, &usage);
        if whole && let Some(dir) = std::env::var_os(EXCHANGES) {
            keep(Path::new(&dir), request, &stream.steps)?;
        }
        stream
    };
    out.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
          transfer-encoding: chunked\r\n\r\n",
    )?;
    for step in stream.steps {
        match step {
            Step::Gate(name) => {
                if !shared.pass(&name) {
                    return Ok(false);
                }
            }
            Step::Bytes(bytes) => {
                for part in bytes.chunks(stream.chunk.min(bytes.len())) {
                    let mut chunk = format!("{:x}\r\n", part.len()).into_bytes();
                    chunk.extend_from_slice(part);
                    chunk.extend_from_slice(b"\r\n");
                    out.write_all(&chunk)?;
                }
            }
        }
    }
    match stream.end {
        End::Proper => out.write_all(b"0\r\n\r\n").map(|()| true),
        End::Broken => Ok(false),
        End::Silent => {
            shared.stay_silent();
            Ok(false)
        }
    }
}

/// Writes a request and the whole stream that answers it, for `scripts/sdk-check`.
fn keep(dir: &Path, request: &Request, steps: &[Step]) -> io::Result<()> {
    let bytes = steps.iter().filter_map(|step| match step {
        Step::Bytes(bytes) => Some(bytes.as_slice()),
        Step::Gate(_) => None,
    });
    let stream = bytes.collect::<Vec<_>>().concat();
    let exchange = json!({ "request": request.body, "stream": String::from_utf8_lossy(&stream) });
    let file = format!("{}-{}.json", std::process::id(), uuid::Uuid::now_v7());
    std::fs::write(dir.join(file), exchange.to_string())
}

fn error_body(kind: &str, message: &str) -> String {
    json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
}

fn plain(out: &mut TcpStream, status: u16, body: &str, headers: &[(&str, String)]) -> io::Result<bool> {
    let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    out.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    Ok(true)
}
