// Package trace reads and writes the one format in which all implementations,
// and anybody's own simulator, record what rollouts compute.
//
// A trace is a header and a stream of records, all little-endian:
//
//	8 bytes  magic "lstrace\n"
//	u32      version, 2
//	u32      length of the JSON object that follows, see Header
//	records  u8 kind, u32 length of the payload, payload
//
// The header's schema names the stages of a step, their types and shapes, and the
// numbers of the outcome. A key that is not known is an error, in the header and in
// descriptions of rollouts. The payloads are, by kind:
//
//	'B' begin  u32 rollout, counting from 0 in the order of these records; a JSON
//	           object, see Rollout
//	'S' step   u32 rollout; u32 step; u64 flags; for each stage that the flags name,
//	           in the order of the schema, its value
//	'E' end    u32 rollout; u32 number of its step records; u8 of what follows:
//	           1: the outcome, f64 each, 2: an error's text up to the payload's end
//	'Z'        u32 number of rollouts, u64 number of step records of the file, and
//	           u32 CRC-32 (that of zlib) of all bytes before these four
//
// Bits 2·i and 2·i+1 of the flags tell how the i-th stage is held: 0 not at all, 1 an
// array's digest (u64), 2 in full, with as many bytes as its type and shape have.
//
// Records of different rollouts may alternate, since engines run many at once; those
// of one rollout are in order, with growing steps. A file that does not end with 'Z'
// was cut off.
//
// The digest of an array is a hash of its bytes, by the header's word "digest":
// "xxh3", XXH3 of 64 bits, "xxh64", XXH64 with seed 0, or "sha256", the first 8 bytes of
// SHA-256 as a big-endian number, which is what goldens hold. SHA-256 of a step's 16 KB
// takes 10 to 50 µs, with and without the CPU's instructions for it, next to some 300 µs
// that a batched rollout computes for a step; from the cache XXH64 takes two, XXH3 half of one. So
// lockstep writes XXH3, unless a trace is to be compared with goldens. Kept cases have
// XXH64.
//
// writer.py and reader.py in this folder write and read traces in Python.
package trace
