//! HPACK of libnghttp2: the reference for speed and for size.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::Library;
use crate::sets::List;

const TABLE: usize = 4096;
const INFLATE_FINAL: c_int = 1;
const INFLATE_EMIT: c_int = 2;

/// `nghttp2_nv`.
#[repr(C)]
#[derive(Clone, Copy)]
struct NameValue {
    name: *const u8,
    value: *const u8,
    name_len: usize,
    value_len: usize,
    flags: u8,
}

const NO_FIELD: NameValue = NameValue { name: ptr::null(), value: ptr::null(), name_len: 0, value_len: 0, flags: 0 };

unsafe extern "C" {
    fn nghttp2_hd_deflate_new(deflater: *mut *mut c_void, table: usize) -> c_int;
    fn nghttp2_hd_deflate_del(deflater: *mut c_void);
    fn nghttp2_hd_deflate_hd(
        deflater: *mut c_void,
        out: *mut u8,
        room: usize,
        fields: *const NameValue,
        count: usize,
    ) -> isize;
    fn nghttp2_hd_inflate_new(inflater: *mut *mut c_void) -> c_int;
    fn nghttp2_hd_inflate_del(inflater: *mut c_void);
    fn nghttp2_hd_inflate_hd2(
        inflater: *mut c_void,
        field: *mut NameValue,
        flags: *mut c_int,
        block: *const u8,
        length: usize,
        last: c_int,
    ) -> isize;
    fn nghttp2_hd_inflate_end_headers(inflater: *mut c_void) -> c_int;
}

pub struct Nghttp2 {
    deflater: *mut c_void,
    inflater: *mut c_void,
}

impl Library for Nghttp2 {
    /// The C structures are filled in by each encoding: who sends a list with this library has to.
    type List = List;
    type Block = Vec<u8>;

    fn new() -> Self {
        let (mut deflater, mut inflater) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: both write a pointer, and say so by returning zero.
        unsafe {
            assert_eq!(nghttp2_hd_deflate_new(&mut deflater, TABLE), 0);
            assert_eq!(nghttp2_hd_inflate_new(&mut inflater), 0);
        }
        Self { deflater, inflater }
    }

    fn list(list: &List) -> List {
        list.clone()
    }

    fn block(block: &[u8]) -> Vec<u8> {
        block.to_vec()
    }

    fn encode(&mut self, list: &Self::List, out: &mut Vec<u8>) {
        let mut fields = [NO_FIELD; 64];
        for (field, (name, value)) in fields.iter_mut().zip(list) {
            *field = NameValue {
                name: name.as_ptr(),
                value: value.as_ptr(),
                name_len: name.len(),
                value_len: value.len(),
                flags: 0,
            };
        }
        // SAFETY: the fields point into the list, `out` has room for its capacity, and the result is what was written.
        unsafe {
            let room = out.capacity();
            let written = nghttp2_hd_deflate_hd(self.deflater, out.as_mut_ptr(), room, fields.as_ptr(), list.len());
            out.set_len(usize::try_from(written).expect("room enough"));
        }
    }

    fn decode(&mut self, block: &Vec<u8>, mut emit: impl FnMut(&[u8], &[u8])) {
        let mut block = &block[..];
        loop {
            let (mut field, mut flags) = (NO_FIELD, 0);
            // SAFETY: a field that is emitted is valid until the next call.
            unsafe {
                let (data, length) = (block.as_ptr(), block.len());
                let read = nghttp2_hd_inflate_hd2(self.inflater, &mut field, &mut flags, data, length, 1);
                block = &block[usize::try_from(read).expect("a valid block")..];
                if flags & INFLATE_EMIT != 0 {
                    let text = |data, length| std::slice::from_raw_parts(data, length);
                    emit(text(field.name, field.name_len), text(field.value, field.value_len));
                }
            }
            if flags & INFLATE_FINAL != 0 {
                break;
            }
        }
        // SAFETY: the block is over.
        unsafe { nghttp2_hd_inflate_end_headers(self.inflater) };
    }
}

impl Drop for Nghttp2 {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`.
        unsafe {
            nghttp2_hd_deflate_del(self.deflater);
            nghttp2_hd_inflate_del(self.inflater);
        }
    }
}
