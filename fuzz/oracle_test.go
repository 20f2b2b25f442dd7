package fuzz

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// What the engines' values are held to, computed from the definitions with large
// integers and rationals. rational.Float64 rounds to nearest even, once.

func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

func rounded(x *big.Rat) float64 {
	f, _ := x.Float64()
	return f
}

// bins are np.linspace(-5, 5, 1024): NumPy rounds the step, then its multiple,
// then the sum, and sets the last.
var bins = func() (b [1024]float64) {
	step := rational(rounded(big.NewRat(10, 1023)))
	for i := range b {
		multiple := rational(rounded(new(big.Rat).Mul(big.NewRat(int64(i), 1), step)))
		b[i] = rounded(multiple.Add(multiple, big.NewRat(-5, 1)))
	}
	b[1023] = 5
	return b
}()

// token is np.digitize(np.clip(x, -5, 5), bins, right=True): how many bins lie
// below. NaN has none.
func token(x float64) (int64, bool) {
	if x != x {
		return 0, false
	}
	n := int64(0)
	for _, b := range bins[:1023] {
		if b < x {
			n++
		}
	}
	return n, true
}

// mt19937 is the Mersenne Twister of Matsumoto and Nishimura (1998), seeded by
// their init_genrand of 2002.
type mt19937 struct {
	words [624]uint32
	next  int
}

func newMT19937(seed uint32) *mt19937 {
	m := &mt19937{next: 624}
	m.words[0] = seed
	for i := 1; i < 624; i++ {
		m.words[i] = 1812433253*(m.words[i-1]^m.words[i-1]>>30) + uint32(i)
	}
	return m
}

func (m *mt19937) word() uint32 {
	if m.next == 624 {
		for k := range m.words {
			y := m.words[k]&(1<<31) | m.words[(k+1)%624]&(1<<31-1)
			m.words[k] = m.words[(k+397)%624] ^ y>>1
			if y%2 == 1 {
				m.words[k] ^= 0x9908b0df
			}
		}
		m.next = 0
	}
	y := m.words[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform is NumPy's random_sample: 53 bits of two words, as a fraction.
func (m *mt19937) uniform() float64 {
	high, low := uint64(m.word()>>5), uint64(m.word()>>6)
	return rounded(new(big.Rat).SetFrac(
		new(big.Int).SetUint64(high<<26|low), new(big.Int).Lsh(big.NewInt(1), 53),
	))
}

func TestMT19937(t *testing.T) {
	// The first words for the authors' default seed, and NumPy's first uniform of
	// the route data/00000.csv.
	m := newMT19937(5489)
	for i, want := range []uint32{3499211612, 581869302, 3890346734, 3586334585, 545404204} {
		if got := m.word(); got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
	for range 9999 - 5 {
		m.word()
	}
	if got := m.word(); got != 4123659995 { // as the C++ standard says
		t.Errorf("word 10,000 is %d, want 4123659995", got)
	}
	if got := newMT19937(3285).uniform(); got != 0x1.2fc57ffa62664p-3 {
		t.Errorf("first uniform %x", got)
	}
}

// cumulate is the distribution that np.random.choice searches: running sums in
// float64, each divided by the last.
func cumulate(probs []float32) []float64 {
	cdf := make([]float64, len(probs))
	sum := new(big.Float).SetPrec(53) // rounds to nearest even, as float64 does
	for i, p := range probs {
		sum.Add(sum, big.NewFloat(float64(p)))
		cdf[i], _ = sum.Float64()
	}
	total := big.NewFloat(cdf[len(cdf)-1])
	for i := range cdf {
		cdf[i], _ = new(big.Float).SetPrec(53).Quo(big.NewFloat(cdf[i]), total).Float64()
	}
	return cdf
}

// clipped is np.clip(x, center-width, center+width), its bounds rounded.
func clipped(x, center, width float64) float64 {
	low, high := center-width, center+width
	switch {
	case x != x || center != center:
		return math.NaN()
	case x < low:
		return low
	case x > high:
		return high
	}
	return x
}

// A decimal is a number as it is written: the digits before the point, those behind it, and the
// power of ten.
type decimal struct {
	negative        bool
	whole, fraction string
	exponent        *big.Int
}

// readDecimal reads a number as it is written, if it is one.
func readDecimal(text string) (d decimal, ok bool) {
	const digits = "0123456789"
	s := strings.Trim(text, " \t\n\v\f\r")
	d.negative = strings.HasPrefix(s, "-")
	if d.negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	d.exponent = new(big.Int)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		power := s[i+1:]
		unsigned := power
		if power != "" && strings.Contains("+-", power[:1]) {
			unsigned = power[1:]
		}
		if unsigned == "" || strings.Trim(unsigned, digits) != "" {
			return d, false
		}
		d.exponent.SetString(power, 10)
		s = s[:i]
	}
	d.whole, d.fraction, _ = strings.Cut(s, ".")
	ok = d.whole+d.fraction != "" && strings.Trim(d.whole+d.fraction, digits) == ""
	return d, ok
}

// pandasFloat reads a number as pandas up to 2.x does, precise_xstrtod: up to 17
// digits are accumulated, number·10 and then + digit, each rounded, and scaled by
// one power of ten, itself rounded to float64.
func pandasFloat(text string) (float64, bool) {
	d, ok := readDecimal(text)
	if !ok {
		return 0, false
	}
	number, digits := 0.0, int64(0)
	for i, digit := range d.whole + d.fraction {
		if digits == 17 {
			if i < len(d.whole) {
				d.exponent.Add(d.exponent, big.NewInt(1))
			}
			continue
		}
		digits++
		ten := rational(rounded(new(big.Rat).Mul(rational(number), big.NewRat(10, 1))))
		number = rounded(ten.Add(ten, big.NewRat(int64(digit-'0'), 1)))
		if i >= len(d.whole) {
			d.exponent.Sub(d.exponent, big.NewInt(1))
		}
	}
	number, ok = scaled(number, d.exponent)
	if d.negative {
		number = -number
	}
	return number, ok
}

// scaled multiplies by a power of ten as precise_xstrtod does, which has the powers up to 308: it
// divides twice where one is too small.
func scaled(number float64, exponent *big.Int) (float64, bool) {
	e := int64(1 << 20)
	if exponent.CmpAbs(big.NewInt(e)) <= 0 {
		e = exponent.Int64()
	} else if exponent.Sign() < 0 {
		e = -e
	}
	divide := func(e int64) float64 {
		return rounded(new(big.Rat).Quo(rational(number), powerOf10(e)))
	}
	switch {
	case e > 308:
		return 0, false
	case e > 0:
		number = rounded(new(big.Rat).Mul(rational(number), powerOf10(e)))
	case e >= -308:
		number = divide(-e)
	case e >= -616:
		number = divide(-308 - e)
		number = divide(308)
	default:
		number = 0
	}
	if math.IsInf(number, 0) {
		return 0, false
	}
	return number, true
}

// powerOf10 is the float64 nearest to a power of ten.
func powerOf10(e int64) *big.Rat {
	return rational(
		rounded(new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(e), nil))),
	)
}

// exactFloat reads a number with one rounding.
func exactFloat(text string) (float64, bool) {
	s := strings.Trim(text, " \t\n\v\f\r")
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false // hexadecimal, underscores, words
	}
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil
}
