//! The future of a handler, in memory that served the one before.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::marker::MaybeSend;

/// Largest future whose memory is kept for the next one, in bytes: an idle connection holds no more than this.
const KEPT: usize = 1024;

/// What a [`Service`](crate::Service) does with one call: a future.
///
/// It lives in memory of its own. A connection whose handlers come to their end one after the other uses the same for
/// all, as long as it is the same handler.
#[must_use = "futures do nothing unless polled"]
pub struct Handling(Option<Box<dyn Place>>);

/// Memory for futures of one type. One allocation holds the future and does not move; the other one is its handle,
/// which does not know the type.
trait Place: MaybeSend {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops the future. Whether the memory is worth keeping.
    fn clear(&mut self) -> bool;

    fn as_any(&mut self) -> &mut dyn Any;
}

type PlaceOf<F> = Pin<Box<Option<F>>>;

impl<F: Future<Output = ()> + MaybeSend + 'static> Place for PlaceOf<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.as_mut().as_pin_mut().map_or(Poll::Ready(()), |future| future.poll(cx))
    }

    fn clear(&mut self) -> bool {
        self.set(None);
        size_of::<Option<F>>() <= KEPT
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Handling {
    /// Nothing is left to be done.
    pub(crate) const DONE: Self = Self(None);

    /// A future, which is polled to its end or dropped when its call is over.
    pub fn new(future: impl Future<Output = ()> + MaybeSend + 'static) -> Self {
        Self(Some(Box::new(Box::pin(Some(future)))))
    }

    /// A future in memory that is kept for it, if it fits.
    pub(super) fn within<F: Future<Output = ()> + MaybeSend + 'static>(spare: Spare, future: F) -> Self {
        let Some(mut place) = spare.into_place() else { return Self::new(future) };
        match place.as_any().downcast_mut::<PlaceOf<F>>() {
            Some(fitting) => {
                fitting.set(Some(future));
                Self(Some(place))
            }
            None => Self::new(future),
        }
    }

    /// Drops the future; what is left is its memory. User code: it may panic.
    pub(super) fn clear(self) -> Spare {
        Spare(Mutex::new(self.0.and_then(|mut place| place.clear().then_some(place))))
    }
}

impl Future for Handling {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Ready(()), |place| place.poll(cx))
    }
}

impl fmt::Debug for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").field("is_done", &self.0.is_none()).finish()
    }
}

/// Memory of a future that is gone, for one like it.
///
/// The mutex is never locked. It lets threads share what has this in it, which futures themselves would not.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Box<dyn Place>>>);

impl Spare {
    fn into_place(self) -> Option<Box<dyn Place>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::sync::Arc;
    use std::task::Waker;

    use super::*;

    fn poll(handling: &mut Handling) -> Poll<()> {
        Pin::new(handling).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Where a future lies.
    async fn address(of: Arc<()>, at: &'static Mutex<usize>) {
        let mut byte = 0_u8;
        let pointer = &raw mut byte as usize;
        poll_fn(|_| Poll::Ready(())).await;
        byte += 1;
        drop((of, byte));
        *at.lock().unwrap() = pointer;
    }

    #[test]
    fn a_future_that_is_done_leaves_its_memory_to_the_next_of_its_kind() {
        static AT: Mutex<usize> = Mutex::new(0);
        let held = Arc::new(());
        let mut handling = Handling::new(address(Arc::clone(&held), &AT));
        assert!(poll(&mut handling).is_ready());
        let first = *AT.lock().unwrap();
        let spare = handling.clear();
        assert_eq!(Arc::strong_count(&held), 1);
        let mut handling = Handling::within(spare, address(Arc::clone(&held), &AT));
        assert!(poll(&mut handling).is_ready());
        assert_eq!(*AT.lock().unwrap(), first);
        let mut handling = Handling::within(handling.clear(), ready(()));
        assert!(poll(&mut handling).is_ready(), "another kind gets memory of its own");
    }

    #[test]
    fn a_future_that_is_cleared_before_its_end_is_dropped() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let mut handling = Handling::new(async move {
            pending::<()>().await;
            drop(inside);
        });
        assert!(poll(&mut handling).is_pending());
        let spare = handling.clear();
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(spare.into_place().is_some());
    }

    #[test]
    fn memory_of_large_futures_is_not_kept() {
        let large = [0_u8; KEPT + 1];
        let mut handling = Handling::new(async move {
            poll_fn(|_| Poll::Ready(())).await;
            std::hint::black_box(&large);
        });
        assert!(poll(&mut handling).is_ready());
        assert!(handling.clear().into_place().is_none());
    }

    #[test]
    fn what_is_done_is_ready_at_once() {
        assert!(poll(&mut { Handling::DONE }).is_ready());
    }
}
