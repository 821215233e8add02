//! gzip on a scale: how many messages it packed and unpacked, and what they weighed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::{Buf, BytesMut};
use trirpc::Gzip;
use trirpc::core::CodecError;
use trirpc::core::call::{Compression, DecompressError};

/// What went through since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) packed: usize,
    pub(super) unpacked: usize,
    pub(super) plain_bytes: usize,
    pub(super) packed_bytes: usize,
}

impl Load {
    /// Share of the plain size that was on the wire, in per cent, rounded up.
    pub(super) fn percent(&self) -> usize {
        (self.packed_bytes * 100).div_ceil(self.plain_bytes.max(1))
    }
}

#[derive(Clone, Default)]
pub(super) struct Weighed(Arc<Scale>);

#[derive(Default)]
struct Scale {
    gzip: Gzip,
    packed: AtomicUsize,
    unpacked: AtomicUsize,
    plain_bytes: AtomicUsize,
    packed_bytes: AtomicUsize,
}

impl Weighed {
    /// The load since the last call.
    pub(super) fn take(&self) -> Load {
        let Scale { packed, unpacked, plain_bytes, packed_bytes, .. } = &*self.0;
        Load {
            packed: packed.swap(0, Relaxed),
            unpacked: unpacked.swap(0, Relaxed),
            plain_bytes: plain_bytes.swap(0, Relaxed),
            packed_bytes: packed_bytes.swap(0, Relaxed),
        }
    }

    fn weigh(&self, plain: usize, packed: usize) {
        self.0.plain_bytes.fetch_add(plain, Relaxed);
        self.0.packed_bytes.fetch_add(packed, Relaxed);
    }
}

impl Compression for Weighed {
    fn name(&self) -> &'static str {
        self.0.gzip.name()
    }

    fn compress(&self, src: &mut dyn Buf, dst: &mut BytesMut) -> Result<(), CodecError> {
        let (plain, before) = (src.remaining(), dst.len());
        self.0.gzip.compress(src, dst)?;
        self.0.packed.fetch_add(1, Relaxed);
        self.weigh(plain, dst.len() - before);
        Ok(())
    }

    fn decompress(&self, src: &mut dyn Buf, dst: &mut BytesMut, limit: usize) -> Result<(), DecompressError> {
        let (packed, before) = (src.remaining(), dst.len());
        self.0.gzip.decompress(src, dst, limit)?;
        self.0.unpacked.fetch_add(1, Relaxed);
        self.weigh(dst.len() - before, packed);
        Ok(())
    }
}
