// Package toy has an expression for each operator of mutation, and tests that see some.
package toy

import "time"

const width = 3 + 4 // a constant is left

type row struct{ at [width - 1]int }

// seen is held by a test in all that can be changed.
func seen(a, b int) (sum int, flags uint8, inside bool) {
	r := &row{}
	for i := 0; i < a; i++ {
		if i == 2 {
			continue
		}
		r.at[i] += i*b - -i
		r.at[i] *= 2
	}
	for _, v := range r.at {
		sum += v
	}
	flags = uint8(1)<<a&0xf0 | 0x05
	flags ^= 0x11
	inside = a > 2 && b >= 1 || a == 0
	return sum % 1000, flags, inside
}

// missed is run, and what it returns is looked at by nobody.
func missed(a float64) float64 { return a * 2 }

func never(a int) bool { return a < 1 }

// endless goes on for ever when its step is turned.
func endless(n uint) (all uint) {
	for n != 0 {
		time.Sleep(time.Millisecond)
		n--
		all++
	}
	return all
}

// last ends by its loop, so that a break in it does not compile.
func last(all map[string]int) string {
	for {
		if all["a"]++; all["a"] < 3 {
			continue
		}
		return "a"
	}
}

// Helped is one that only another package's tests run.
func Helped(a float64) float64 { return a + 2 }
