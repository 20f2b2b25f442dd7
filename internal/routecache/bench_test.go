package routecache

import (
	"context"
	"testing"
)

// BenchmarkLoad loads 5,000 routes of 600 rows, parsed and cached.
func BenchmarkLoad(b *testing.B) {
	files := make([]string, 0, 5000)
	dir := b.TempDir()
	for k := range cap(files) {
		files = append(files, dir+"/"+name(k))
		writeRoute(b, files[k], 600, k)
	}
	c := Cache{Dir: b.TempDir()}
	b.Run("parsed", func(b *testing.B) {
		for b.Loop() {
			if _, _, stats := (Cache{}).Load(context.Background(), files); stats.Parsed != len(
				files,
			) {
				b.Fatal(stats)
			}
		}
	})
	b.Run("cached", func(b *testing.B) {
		c.Load(context.Background(), files)
		for b.Loop() {
			if _, _, stats := c.Load(context.Background(), files); stats.Cached != len(files) {
				b.Fatal(stats)
			}
		}
	})
}

func name(k int) string {
	digits := []byte("00000.csv")
	for i := 4; i >= 0; i-- {
		digits[i] = byte('0' + k%10)
		k /= 10
	}
	return string(digits)
}
