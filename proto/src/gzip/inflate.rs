//! Inflating: one member after the other, never beyond the limit.

use alloc::format;

use bytes::{Buf, BytesMut};
use crc32fast::Hasher;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use trirpc_core::CodecError;
use trirpc_core::call::DecompressError;

use super::MAGIC;

/// Flags of a header (RFC 1952, section 2.3.1).
const HEADER_CHECKSUM: u8 = 0x02;
const EXTRA: u8 = 0x04;
const NAME: u8 = 0x08;
const COMMENT: u8 = 0x10;
const RESERVED: u8 = 0xe0;

/// No octet of deflated data gives more than this many (a match of 258 in two bits).
const MAX_RATIO: usize = 1032;

/// Least room that the output grows by, in bytes.
const ROOM: usize = 512;

/// Appends the content of every member of `src`, at most `limit` bytes in all.
pub(super) fn members(
    machine: &mut DecompressorOxide,
    src: &mut dyn Buf,
    dst: &mut BytesMut,
    limit: usize,
) -> Result<(), DecompressError> {
    let start = dst.len();
    let end = start.saturating_add(limit);
    loop {
        header(src)?;
        member(machine, src, dst, end)?;
        if !src.has_remaining() {
            return Ok(());
        }
    }
}

/// Reads over the header of a member.
fn header(src: &mut dyn Buf) -> Result<(), DecompressError> {
    let mut fields = Fields { src, checksum: Hasher::new() };
    if fields.octets()? != MAGIC {
        return Err(malformed("no gzip data"));
    }
    let [flags] = fields.octets()?;
    if flags & RESERVED != 0 {
        return Err(malformed(format!("unknown flags 0x{flags:02x} in a gzip header")));
    }
    let _time_and_system: [u8; 6] = fields.octets()?;
    if flags & EXTRA != 0 {
        for _ in 0..u16::from_le_bytes(fields.octets()?) {
            fields.octets::<1>()?;
        }
    }
    for text in [NAME, COMMENT] {
        while flags & text != 0 && fields.octets()? != [0] {}
    }
    if flags & HEADER_CHECKSUM != 0 {
        let expected = fields.checksum.clone().finalize() as u16;
        if u16::from_le_bytes(fields.octets()?) != expected {
            return Err(malformed("wrong checksum of a gzip header"));
        }
    }
    Ok(())
}

/// The octets of a header, and their checksum.
struct Fields<'a> {
    src: &'a mut dyn Buf,
    checksum: Hasher,
}

impl Fields<'_> {
    fn octets<const N: usize>(&mut self) -> Result<[u8; N], DecompressError> {
        let octets = take(self.src)?;
        self.checksum.update(&octets);
        Ok(octets)
    }
}

fn take<const N: usize>(src: &mut dyn Buf) -> Result<[u8; N], DecompressError> {
    if src.remaining() < N {
        return Err(truncated());
    }
    let mut octets = [0; N];
    src.copy_to_slice(&mut octets);
    Ok(octets)
}

/// Appends the content of one member, behind its header; `dst` grows to `end` at most.
fn member(
    machine: &mut DecompressorOxide,
    src: &mut dyn Buf,
    dst: &mut BytesMut,
    end: usize,
) -> Result<(), DecompressError> {
    machine.init();
    let start = dst.len();
    let mut filled = start;
    let mut room = first_room(src);
    loop {
        if filled == dst.len() {
            // One byte more than allowed, so that a message of exactly the limit is told from a larger one.
            dst.resize(filled.saturating_add(room).min(end.saturating_add(1)), 0);
            room = ROOM.max(dst.len() - start);
        }
        let chunk = src.chunk();
        let more = if chunk.len() < src.remaining() { TINFL_FLAG_HAS_MORE_INPUT } else { 0 };
        let flags = more | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, consumed, produced) = decompress(machine, chunk, &mut dst[start..], filled - start, flags);
        src.advance(consumed);
        filled += produced;
        if filled > end {
            return Err(DecompressError::TooLarge);
        }
        match status {
            TINFLStatus::Done => break,
            TINFLStatus::HasMoreOutput => {}
            TINFLStatus::NeedsMoreInput if more != 0 => {}
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => return Err(truncated()),
            _ => return Err(malformed("damaged gzip data")),
        }
    }
    dst.truncate(filled);
    let content = &dst[start..];
    if u32::from_le_bytes(take(src)?) != crc32fast::hash(content) {
        return Err(malformed("wrong checksum of gzip data"));
    }
    if u32::from_le_bytes(take(src)?) != content.len() as u32 {
        return Err(malformed("wrong length of gzip data"));
    }
    Ok(())
}

/// Room for the content of a member, as its end claims, where that is in sight; no more than its octets can give.
fn first_room(src: &dyn Buf) -> usize {
    let remaining = src.remaining();
    let claimed = match src.chunk().last_chunk() {
        Some(len) if src.chunk().len() == remaining => u32::from_le_bytes(*len) as usize,
        _ => remaining.saturating_mul(4),
    };
    claimed.min(remaining.saturating_mul(MAX_RATIO)).saturating_add(1)
}

fn malformed(message: impl Into<alloc::string::String>) -> DecompressError {
    DecompressError::Malformed(CodecError::new(message))
}

fn truncated() -> DecompressError {
    malformed("gzip data ends early")
}
