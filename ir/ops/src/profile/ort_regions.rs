//! Regions of the memory of a session with default options: an arena that asks the system for powers of two.
//!
//! A request that no free part of a region holds begins a new region: the least power of two that holds the
//! request and is at least as large as the next region, which is 1 MiB at first and at least the last region
//! afterwards. The arena never gives a region back. From the second run on, one block holds the values of a
//! run, and it lies in one region. A free part that is less than twice a request is not divided.
//! (`bfc_arena.cc` of ONNX Runtime)

/// Least region, in bytes.
pub const LEAST_REGION: u64 = 1 << 20;

/// Granularity of requests, in bytes.
const GRAIN: u64 = 256;

/// Returns the region that a request of so many bytes begins in an arena without regions; `None` if it is not
/// a number of 64 bits.
pub fn region(bytes: u64) -> Option<u64> {
    bytes.checked_next_power_of_two().map(|bytes| bytes.max(LEAST_REGION))
}

/// Returns the bytes of the least request that begins a region of this size, a power of two above
/// [`LEAST_REGION`].
pub fn begins(region: u64) -> u64 {
    region / 2 + GRAIN
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_least_request_begins_its_region_and_none_below() {
        for shift in 21..40 {
            let size = 1 << shift;
            assert_eq!(region(begins(size)), Some(size));
            assert_eq!(region(begins(size) - GRAIN), Some(size / 2));
        }
        assert_eq!((region(0), region(1), region(u64::MAX)), (Some(LEAST_REGION), Some(LEAST_REGION), None));
    }
}
