package arbitrary

import (
	"encoding/binary"
	"slices"

	"pgregory.net/rapid"
)

// Damage changes the bytes of a file in a few places, as a bad disk, a cut
// connection or an enemy would.
func Damage(t *rapid.T, data []byte) []byte {
	at := func() int { return rapid.IntRange(0, max(len(data)-1, 0)).Draw(t, "at") }
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		if len(data) == 0 {
			return data
		}
		switch rapid.IntRange(0, 6).Draw(t, "kind of change") {
		case 0:
			data[at()] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			data[at()] = rapid.Byte().Draw(t, "byte")
		case 2:
			data = data[:at()]
		case 3: // a number, where one may be
			number := rapid.SampledFrom([]uint64{
				0, 1, 0x7f, 0xff, 0xffff, 1<<31 - 1, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1<<64 - 1,
			}).Draw(t, "number")
			copy(
				data[at():],
				binary.LittleEndian.AppendUint64(nil,
					number)[:rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "size")],
			)
		case 4: // a part twice
			from := at()
			part := slices.Clone(
				data[from:min(len(data), from+rapid.IntRange(1, 64).Draw(t, "length"))],
			)
			data = slices.Insert(data, at(), part...)
		case 5: // a part missing
			from := at()
			data = slices.Delete(
				data, from, min(len(data), from+rapid.IntRange(1, 64).Draw(t, "length")),
			)
		default:
			data = slices.Insert(data, at(), rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "bytes")...)
		}
	}
	return data
}
