//! Huffman code of strings (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: the lengths alone define it, and every table here is computed from them by
//! the compiler. Decoding looks at [`WIDTH`] bits at a time, which hold up to two symbols.

use bytes::{BufMut, BytesMut};

/// Number of symbols: the octets, then EOS.
const SYMBOLS: usize = 257;
const EOS: u16 = 256;

/// Longest code, in bits; EOS is one of this length.
const MAX_BITS: u32 = 30;

/// Bits of one step of the decoder: 8 KiB of table, in which all of text takes one step for a symbol or two.
const WIDTH: u32 = 11;

/// Length of the code of each symbol, in bits (RFC 7541 Appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,];

/// Code of each symbol, in the low bits: within one length, codes ascend with the symbol.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const CODES: [u32; SYMBOLS] = {
    let mut codes = [0; SYMBOLS];
    let mut code = 0;
    let mut length = 1;
    while length <= MAX_BITS {
        code <<= 1;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    assert!(code == 1 << MAX_BITS, "the lengths make a complete code");
    codes
};

/// What the next [`WIDTH`] bits hold.
#[derive(Clone, Copy)]
struct Step {
    first: u8,
    second: u8,
    /// How many of both there are; 0 if the code of the first is longer than `WIDTH`.
    symbols: u8,
    /// Bits of both symbols, or of the only one.
    bits: u8,
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
static STEPS: [Step; 1 << WIDTH] = {
    let mut steps = [Step { first: 0, second: 0, symbols: 0, bits: 0 }; 1 << WIDTH];
    let mut first = 0;
    while first < EOS as usize {
        let first_bits = LENGTHS[first] as u32;
        if first_bits <= WIDTH {
            let left = WIDTH - first_bits;
            let base = (CODES[first] as usize) << left;
            let mut i = base;
            while i < base + (1 << left) {
                steps[i] = Step { first: first as u8, second: 0, symbols: 1, bits: first_bits as u8 };
                i += 1;
            }
            let mut second = 0;
            while second < EOS as usize {
                let bits = LENGTHS[second] as u32;
                if bits <= left {
                    let base = base + ((CODES[second] as usize) << (left - bits));
                    let mut i = base;
                    while i < base + (1 << (left - bits)) {
                        steps[i].second = second as u8;
                        steps[i].symbols = 2;
                        steps[i].bits = (first_bits + bits) as u8;
                        i += 1;
                    }
                }
                second += 1;
            }
        }
        first += 1;
    }
    steps
};

/// The codes of one length, for those longer than [`WIDTH`].
#[derive(Clone, Copy)]
struct Length {
    /// The first code of this length.
    first: u32,
    /// The first code that is longer, cut to this length.
    end: u32,
    /// Where its symbols begin in [`BY_CODE`].
    offset: u16,
}

/// Symbols in the order of their codes.
static BY_CODE: [u16; SYMBOLS] = ORDER.0;
static BY_LENGTH: [Length; MAX_BITS as usize + 1] = ORDER.1;

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const ORDER: ([u16; SYMBOLS], [Length; MAX_BITS as usize + 1]) = {
    let mut by_code = [0; SYMBOLS];
    let mut by_length = [Length { first: 0, end: 0, offset: 0 }; MAX_BITS as usize + 1];
    let mut filled = 0;
    let mut code = 0;
    let mut length = 1;
    while length <= MAX_BITS as usize {
        code <<= 1;
        by_length[length].first = code;
        by_length[length].offset = filled;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                by_code[filled as usize] = symbol as u16;
                filled += 1;
                code += 1;
            }
            symbol += 1;
        }
        by_length[length].end = code;
        length += 1;
    }
    (by_code, by_length)
};

/// Length of `src` when encoded, in octets.
#[expect(clippy::indexing_slicing, reason = "an octet indexes 257 symbols")]
pub(super) fn encoded_len(src: &[u8]) -> usize {
    let bits: usize = src.iter().map(|&octet| usize::from(LENGTHS[usize::from(octet)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `src`, padded with ones: [`encoded_len`] octets.
#[expect(clippy::indexing_slicing, reason = "an octet indexes 257 symbols")]
pub(super) fn encode(src: &[u8], dst: &mut BytesMut) {
    let mut bits: u64 = 0;
    let mut count: u32 = 0; // bits that are not written yet: the low ones, below 32 of them
    for &octet in src {
        let symbol = usize::from(octet);
        bits = (bits << LENGTHS[symbol]) | u64::from(CODES[symbol]);
        count += u32::from(LENGTHS[symbol]);
        if count >= 32 {
            count -= 32;
            dst.put_u32((bits >> count) as u32);
        }
    }
    let padding = count.next_multiple_of(8) - count;
    bits = (bits << padding) | ((1 << padding) - 1);
    count += padding;
    while count > 0 {
        count -= 8;
        dst.put_u8((bits >> count) as u8);
    }
}

/// Room that [`decode`] needs for `len` octets of code: no code is shorter than five bits, and the
/// last step may write one octet past the end.
pub(super) const fn max_decoded_len(len: usize) -> usize {
    len.saturating_mul(8) / 5 + 1
}

/// Decodes `src` into the front of `dst` ([`max_decoded_len`] octets of room); returns how many
/// octets it wrote, or `None` if `src` is not Huffman code.
#[expect(clippy::indexing_slicing, reason = "`WIDTH` bits index as many steps, an octet 257 symbols")]
pub(super) fn decode(src: &[u8], dst: &mut [u8]) -> Option<usize> {
    let mut rest = src;
    let mut bits: u64 = 0; // left-aligned
    let mut count: u32 = 0; // bits that are accounted for; those below them are zero or the next ones of `src`
    let mut written = 0;

    loop {
        if let Some(chunk) = rest.first_chunk::<8>() {
            bits |= u64::from_be_bytes(*chunk) >> count;
            let taken = (63 - count) / 8;
            rest = rest.get(taken as usize..)?;
            count += 8 * taken;
        } else {
            while count <= 56 {
                let Some((&octet, tail)) = rest.split_first() else { break };
                bits |= u64::from(octet) << (56 - count);
                rest = tail;
                count += 8;
            }
        }
        while count >= WIDTH {
            let step = STEPS[(bits >> (64 - WIDTH)) as usize];
            if step.symbols > 0 {
                *dst.get_mut(written..)?.first_chunk_mut()? = [step.first, step.second];
                written += usize::from(step.symbols);
                bits <<= step.bits;
                count -= u32::from(step.bits);
                continue;
            }
            if count < MAX_BITS {
                break; // it may not be there as a whole
            }
            let (symbol, length) = long_code(bits)?;
            *dst.get_mut(written)? = u8::try_from(symbol).ok()?; // EOS is no octet
            written += 1;
            bits <<= length;
            count -= length;
        }
        if rest.is_empty() {
            break;
        }
    }

    // What is left may end in the middle of a step, and in padding.
    loop {
        let step = STEPS[(bits >> (64 - WIDTH)) as usize];
        let (symbol, length) = match step.symbols {
            0 => long_code(bits)?,
            _ => (u16::from(step.first), u32::from(LENGTHS[usize::from(step.first)])),
        };
        if length > count {
            break;
        }
        *dst.get_mut(written)? = u8::try_from(symbol).ok()?;
        written += 1;
        bits <<= length;
        count -= length;
    }
    let is_padding = count < 8 && bits == !(u64::MAX >> count);
    is_padding.then_some(written)
}

/// The symbol at the top of `bits`, whose code is longer than [`WIDTH`], and the length of its code.
#[expect(clippy::indexing_slicing, reason = "a length of at most `MAX_BITS`")]
fn long_code(bits: u64) -> Option<(u16, u32)> {
    let mut length = WIDTH + 1;
    while length <= MAX_BITS {
        let row = BY_LENGTH[length as usize];
        let code = (bits >> (64 - length)) as u32;
        if code < row.end {
            let symbol = BY_CODE.get(usize::from(row.offset) + code.checked_sub(row.first)? as usize)?;
            return Some((*symbol, length));
        }
        length += 1;
    }
    None
}

#[cfg(test)]
mod tests;
