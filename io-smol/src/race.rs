//! Connecting to a name with several addresses (RFC 8305, "happy eyeballs").

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use smol::Timer;

/// How long an attempt has for itself before the next address is tried beside it (RFC 8305 §8).
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// The first connection to any of `addresses`. The next one is tried when an attempt fails, or when the last has
/// had its head start: an address family that swallows packets costs a moment and not the whole time limit.
///
/// # Errors
/// The error of the last attempt to fail.
pub(crate) async fn first_connected<T, F>(
    addresses: Vec<SocketAddr>,
    head_start: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut waiting = interleaved(addresses);
    let mut running: Vec<Pin<Box<F>>> = Vec::with_capacity(waiting.len());
    let mut turn = Timer::never();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    poll_fn(|cx| {
        loop {
            let mut failed = false;
            let mut at = 0;
            while let Some(attempt) = running.get_mut(at) {
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(connected)) => return Poll::Ready(Ok(connected)),
                    Poll::Ready(Err(error)) => {
                        (last, failed) = (error, true);
                        drop(running.swap_remove(at));
                    }
                    Poll::Pending => at += 1,
                }
            }
            let is_due = failed || running.is_empty() || Pin::new(&mut turn).poll(cx).is_ready();
            match waiting.pop_front() {
                Some(address) if is_due => {
                    running.push(Box::pin(connect(address)));
                    turn.set_after(head_start);
                }
                Some(address) => {
                    waiting.push_front(address);
                    return Poll::Pending;
                }
                None if running.is_empty() => {
                    return Poll::Ready(Err(std::mem::replace(&mut last, io::ErrorKind::Other.into())));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// The families in turn, each in its order, the resolver's favourite first (RFC 8305 §4).
fn interleaved(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let favourite = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (VecDeque<_>, VecDeque<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == favourite);
    let mut mixed = VecDeque::with_capacity(first.len() + second.len());
    while let Some(address) = first.pop_front() {
        mixed.push_back(address);
        mixed.extend(second.pop_front());
    }
    mixed.append(&mut second);
    mixed
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::pending;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    /// Port 1 never answers, port 2 refuses, any other connects.
    async fn dial(address: SocketAddr) -> io::Result<SocketAddr> {
        match address.port() {
            1 => pending().await,
            2 => Err(io::Error::new(io::ErrorKind::ConnectionRefused, address.to_string())),
            _ => Ok(address),
        }
    }

    #[test]
    fn an_address_that_never_answers_does_not_keep_the_next_one_waiting() {
        let both = addresses(&["[::1]:1", "127.0.0.1:80"]);
        let connected = smol::block_on(first_connected(both, Duration::from_millis(1), dial));
        assert_eq!(connected.expect("the second").to_string(), "127.0.0.1:80");
    }

    /// With a head start of an hour, waiting for it would be noticed.
    #[test]
    fn a_failure_lets_the_next_address_begin_at_once() {
        let hour = Duration::from_secs(3600);
        let connected = smol::block_on(first_connected(addresses(&["[::1]:2", "127.0.0.1:80"]), hour, dial));
        assert_eq!(connected.expect("the second").to_string(), "127.0.0.1:80");
        let failed = smol::block_on(first_connected(addresses(&["[::1]:2", "127.0.0.1:2"]), hour, dial));
        assert_eq!(failed.expect_err("both refuse").to_string(), "127.0.0.1:2");
        let none = smol::block_on(first_connected(Vec::new(), hour, dial));
        assert_eq!(none.expect_err("nowhere to go").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_families_take_turns_and_keep_their_order() {
        let tried = RefCell::new(Vec::new());
        let all = addresses(&["[::1]:2", "[::2]:2", "[::3]:2", "10.0.0.1:2", "10.0.0.2:2"]);
        let failed = smol::block_on(first_connected(all, HEAD_START, |address| {
            tried.borrow_mut().push(address.to_string());
            dial(address)
        }));
        assert!(failed.is_err());
        assert_eq!(tried.into_inner(), ["[::1]:2", "10.0.0.1:2", "[::2]:2", "10.0.0.2:2", "[::3]:2"]);
    }
}
