//! A compression that needs no library: runs of an octet, each as its length and the octet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, BytesMut};
use trirpc_core::CodecError;
use trirpc_core::call::DecompressError;
use trirpc_rpc::Compression;

type Probe = Box<dyn Fn() + Send>;

/// Counts its work. Clones count together.
#[derive(Clone)]
pub struct Rle {
    name: &'static str,
    fault: Fault,
    pub counts: Arc<Counts>,
}

#[derive(Default)]
pub struct Counts {
    compressed: AtomicUsize,
    inflated: AtomicUsize,
    probe: Mutex<Option<Probe>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// What it compresses cannot be inflated.
    Damages,
    /// It does not compress at all.
    Fails,
}

impl Rle {
    pub fn new(fault: Fault) -> Self {
        Self { name: "rle", fault, counts: Arc::default() }
    }

    pub fn named(name: &'static str) -> Self {
        Self { name, ..Self::new(Fault::None) }
    }

    /// Messages compressed and inflated since the last time this was asked.
    pub fn take(&self) -> (usize, usize) {
        (self.counts.compressed.swap(0, Ordering::SeqCst), self.counts.inflated.swap(0, Ordering::SeqCst))
    }

    /// To be called whenever it works.
    pub fn probe(&self, probe: impl Fn() + Send + 'static) {
        *self.counts.probe.lock().unwrap() = Some(Box::new(probe));
    }

    fn works(&self, count: &AtomicUsize) {
        count.fetch_add(1, Ordering::SeqCst);
        if let Some(probe) = &*self.counts.probe.lock().unwrap() {
            probe();
        }
    }
}

impl Compression for Rle {
    fn name(&self) -> &'static str {
        self.name
    }

    fn compress(&self, src: &mut dyn Buf, dst: &mut BytesMut) -> Result<(), CodecError> {
        self.works(&self.counts.compressed);
        match self.fault {
            Fault::None => {}
            Fault::Damages => {
                src.advance(src.remaining());
                dst.put_u8(7);
                return Ok(());
            }
            Fault::Fails => return Err(CodecError::new("as the test asks")),
        }
        let mut run: Option<(u8, u8)> = None;
        while src.has_remaining() {
            let octet = src.get_u8();
            match &mut run {
                Some((len, of)) if *of == octet && *len < u8::MAX => *len += 1,
                _ => {
                    if let Some((len, of)) = run.replace((1, octet)) {
                        dst.put_slice(&[len, of]);
                    }
                }
            }
        }
        if let Some((len, of)) = run {
            dst.put_slice(&[len, of]);
        }
        Ok(())
    }

    fn decompress(&self, src: &mut dyn Buf, dst: &mut BytesMut, limit: usize) -> Result<(), DecompressError> {
        self.works(&self.counts.inflated);
        let start = dst.len();
        while src.has_remaining() {
            if src.remaining() < 2 {
                return Err(CodecError::new("half a run").into());
            }
            let (len, octet) = (src.get_u8(), src.get_u8());
            dst.put_bytes(octet, len.into());
            if dst.len() - start > limit {
                return Err(DecompressError::TooLarge);
            }
        }
        Ok(())
    }
}
