// Package trace reads and writes the one format in which all implementations,
// and anybody's own simulator, record what a rollout computes.
//
// A trace is a header and a stream of records, all little-endian:
//
//	8 bytes  magic "lstrace\n"
//	u32      version, 1
//	u32      length of the JSON object that follows, see Header
//	records  u8 kind, u32 length of the payload, payload
//
// The payloads are, by kind:
//
//	'B' begin  u32 rollout, counting from 0 in the order of these records; a JSON
//	           object, see Rollout
//	'S' step   u32 rollout; u32 step; u32 flags; for each stage that the flags name,
//	           in the order of Stage, its value
//	'E' end    u32 rollout; u32 number of its step records; u8 of what follows:
//	           1: the three costs as f64, 2: the rollout's rolling hash as u64,
//	           4: an error's text up to the payload's end
//	'Z'        u32 number of rollouts, u64 number of step records of the file
//
// Bits 2·stage and 2·stage+1 of the flags tell how a stage is held: 0 not at all,
// 1 an array's digest (u64), 2 in full. In full, action, draw, prediction and
// lataccel are f64, sample is i64, tokens are i64 (20), states f32 (20, 4), logits
// and probs f32 (1024), cdf f64 (1024).
//
// Records of different rollouts may alternate, since engines run many at once; those
// of one rollout are in order, with growing steps. A file that does not end with 'Z'
// was cut off.
//
// The digest of an array is a hash of its bytes, by the header's word "digest":
// "xxh64", XXH64 with seed 0, or "sha256", the first 8 bytes of SHA-256 as a
// big-endian number, which is what goldens hold. SHA-256 of a step's 16 KB takes
// 10 to 50 µs, with and without the CPU's instructions for it, next to some 400 µs that
// a batched rollout computes for a step; XXH64 takes one or two. So traces have XXH64
// unless they are to be compared with goldens.
//
// The rolling hash of a rollout, see Roll, is of all its stages' digests: rollouts are
// equal if these are.
//
// writer.py and reader.py in this folder write and read traces in Python.
package trace
