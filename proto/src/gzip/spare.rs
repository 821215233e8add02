//! Machines that wait for their next message.

use alloc::boxed::Box;

/// Keeps a few machines for use again: one is far larger than most messages. Without std there is no lock to keep
/// them behind, and each is dropped.
pub(super) struct Spare<T> {
    #[cfg(feature = "std")]
    machines: std::sync::Mutex<alloc::vec::Vec<Box<T>>>,
    #[cfg(not(feature = "std"))]
    machines: core::marker::PhantomData<fn() -> T>,
}

#[cfg(feature = "std")]
impl<T> Spare<T> {
    /// Most machines kept; more work at once only on machines with more cores than that.
    const MOST: usize = 8;

    pub(super) const fn new() -> Self {
        Self { machines: std::sync::Mutex::new(alloc::vec::Vec::new()) }
    }

    pub(super) fn take(&self) -> Option<Box<T>> {
        self.lock().pop()
    }

    pub(super) fn keep(&self, machine: Box<T>) {
        let mut machines = self.lock();
        if machines.len() < Self::MOST {
            machines.push(machine);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, alloc::vec::Vec<Box<T>>> {
        self.machines.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(not(feature = "std"))]
impl<T> Spare<T> {
    pub(super) const fn new() -> Self {
        Self { machines: core::marker::PhantomData }
    }

    pub(super) fn take(&self) -> Option<Box<T>> {
        None
    }

    pub(super) fn keep(&self, machine: Box<T>) {
        drop(machine);
    }
}
