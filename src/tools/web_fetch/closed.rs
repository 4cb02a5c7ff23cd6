//! Addresses that are never fetched: where clouds tell a machine its own credentials.
//!
//! Looks at addresses in numbers in all their forms, and at where a name leads now. A name can lead elsewhere a
//! moment later, so the address that answered is looked at as well. Loopback and private addresses are not
//! closed: rules decide about those.

use reqwest::Url;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How long a name is looked up before the request; the request itself says more about a name that leads
/// nowhere.
const LOOKUP: Duration = Duration::from_secs(5);
/// Names that clouds give these addresses.
const NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data", "metadata.azure.internal"];
/// Addresses for the same outside of the link-local blocks: Alibaba, Oracle, Azure.
const V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
/// Amazon's, a block of its own (fd00:ec2::/32).
const AMAZON: [u16; 2] = [0xfd00, 0x0ec2];

/// Whether an address is one of them.
pub(super) fn is_closed(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local() || V4.contains(&ip),
        IpAddr::V6(ip) => {
            let parts = ip.segments();
            ip.is_unicast_link_local()
                || parts[..2] == AMAZON
                || inner(ip).is_some_and(|inner| is_closed(IpAddr::V4(inner)))
        }
    }
}

/// The IPv4 address within: mapped, compatible, or behind a translator (RFC 6052).
fn inner(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = ip.segments();
    let translated = parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    let compatible = parts[..6] == [0; 6];
    let octets = ip.octets();
    let last = Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]);
    ip.to_ipv4_mapped().or((translated || compatible).then_some(last))
}

/// Refuses an address that leads there now. The error is the end of a sentence.
pub(super) async fn check(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    if NAMES.contains(&host.as_str()) {
        return Err(refusal(&host));
    }
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if let Ok(ip) = number {
        return if is_closed(ip) { Err(refusal(&host)) } else { Ok(()) };
    }
    let port = url.port_or_known_default().unwrap_or_default();
    let closed = match timeout(LOOKUP, lookup_host((host.as_str(), port))).await {
        Ok(Ok(mut found)) => found.any(|address| is_closed(address.ip())),
        // A proxy may know it.
        Ok(Err(_)) | Err(_) => false,
    };
    if closed { Err(refusal(&host)) } else { Ok(()) }
}

/// Why such an address is not fetched.
pub(super) fn refusal(host: &str) -> String {
    format!("{host} is where a cloud gives a machine its own credentials, which is never fetched")
}

#[cfg(test)]
mod tests {
    use super::super::fetch::address;
    use super::*;

    #[tokio::test]
    async fn machines_credentials_are_closed_in_every_form_and_loopback_is_not() {
        for url in [
            "http://169.254.169.254/latest/meta-data/",
            "http://169.254.170.2/v2/credentials",
            "http://2852039166/",
            "http://0xA9FEA9FE/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[::a9fe:a9fe]/",
            "http://100.100.100.200/",
            "https://metadata.google.internal/computeMetadata/v1/",
            "https://Metadata.Google.Internal./",
        ] {
            let parsed = address(url).expect(url);
            let why = check(&parsed).await.expect_err(url);
            assert!(
                why.ends_with("is where a cloud gives a machine its own credentials, which is never fetched")
            );
        }
        for url in [
            "http://127.0.0.1:1/",
            "http://localhost:1/",
            "http://[::1]/",
            "http://10.0.0.1/",
            "http://[fd00::1]/",
        ] {
            assert_eq!(check(&address(url).expect(url)).await, Ok(()), "{url}");
        }
    }
}
