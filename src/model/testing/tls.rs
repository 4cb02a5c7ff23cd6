//! A TLS server on 127.0.0.1 whose certificate nobody trusts.
//!
//! `tls/` holds a certificate signed by itself and its key, made for this and used nowhere else.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::net::TcpListener;
use std::sync::Arc;

/// Takes so many connections and ends; gives its address.
pub(in crate::model) fn untrusted(connections: usize) -> String {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a server");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("https://{}", listener.local_addr().expect("address"));
    std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut tls = ServerConnection::new(Arc::clone(&config)).expect("a server");
            // The client breaks off when it sees the certificate.
            while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
        }
    });
    url
}
