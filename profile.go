package lockstep

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/pandas"
)

// Profile names the arithmetic of one Python installation: the few choices in
// which ONNX Runtime, NumPy, pandas and the C library differ between versions
// and CPUs. Everything else is the same everywhere. A profile is data: it is
// recorded in every golden and every report.
//
// Its text form joins the five choices, for example
// "ort1.30-avx512-expU-sinfma-csv2".
type Profile struct {
	LayerNorm LayerNorm
	Softmax   Softmax
	Exp       Exp
	Sin       Sin
	CSV       CSV
}

// LayerNorm is ONNX Runtime's formula for layer normalisation.
type LayerNorm uint8

const (
	// LayerNorm130 is that of version 1.30 on: the mean from four float64 sums,
	// the variance of x - mean from eight float32 FMA chains.
	LayerNorm130 LayerNorm = iota
	// LayerNorm127 is that of versions 1.27 to 1.29: Welford's recurrence.
	LayerNorm127
	// LayerNorm123 is that of versions up to 1.26: mean and mean square from
	// one float32 chain each.
	LayerNorm123
	// LayerNorm130ARM is that of versions from 1.30 on for arm64: Welford's recurrence
	// as a compiler leaves it that contracts products and sums.
	LayerNorm130ARM
)

// Softmax is the number of lanes in the attention softmax, which is that of the
// CPU that ONNX Runtime runs on.
type Softmax uint8

const (
	SoftmaxAVX512 Softmax = iota // 16 lanes
	SoftmaxAVX2                  // 8 lanes
	SoftmaxNEON                  // 4 lanes
)

// Exp is NumPy's float32 exponential. The first two differ on 37 inputs.
type Exp uint8

const (
	ExpU Exp = iota // range reduction rounds the product x·log2(e)
	ExpF            // range reduction fuses it
	ExpC            // glibc's, in float64
)

// Sin is the float64 sine of the route's roll.
type Sin uint8

const (
	SinFMA Sin = iota // glibc on a CPU with FMA
)

// CSV is pandas' reading of a decimal number.
type CSV uint8

const (
	CSV2     = CSV(pandas.TwicePerDigit) // pandas up to 2.x: two roundings for every digit
	CSVExact = CSV(pandas.Correct)       // correctly rounded
)

// A Form is one way in which Python's packages compute a part of the arithmetic.
type Form struct {
	Word string // in a profile's name
	What string // the versions and machines that have it
}

// forms are the rows that profiles are made of: for each word of a name, in order, what
// it can be, by the constants above.
var forms = [...][]Form{
	{
		LayerNorm130: {"ort1.30", "ONNX Runtime from 1.30 on, x86-64 with AVX2"},
		LayerNorm127: {"ort1.27", "ONNX Runtime 1.27 to 1.29"},
		LayerNorm123: {"ort1.23", "ONNX Runtime up to 1.26"},

		LayerNorm130ARM: {"ort1.30arm", "ONNX Runtime from 1.30 on, arm64"},
	},
	{
		SoftmaxAVX512: {"avx512", "x86-64 with AVX-512"},
		SoftmaxAVX2:   {"avx2", "x86-64 with AVX2"},
		SoftmaxNEON:   {"neon", "arm64"},
	},
	{
		ExpU: {"expU", "NumPy from PyPI, x86-64 with AVX2"},
		ExpF: {"expF", "NumPy built by a compiler that contracts, x86-64 with AVX2"},
		ExpC: {"expC", "the C library's: arm64, and x86-64 without AVX2"},
	},
	{
		SinFMA: {"sinfma", "glibc's, on a CPU with FMA"},
	},
	{
		CSV2:     {"csv2", "pandas up to 3.0, x86-64"},
		CSVExact: {"csvexact", "pandas from 3.1 on"},
	},
}

// parts are a profile's, in the order of forms.
func (p *Profile) parts() [len(forms)]*uint8 {
	return [...]*uint8{
		(*uint8)(&p.LayerNorm), (*uint8)(&p.Softmax), (*uint8)(&p.Exp), (*uint8)(&p.Sin),
		(*uint8)(&p.CSV),
	}
}

// Forms are what part k of a profile can be: the words that can stand at place k of its
// name, from 0 on.
func Forms(k int) []Form { return slices.Clone(forms[k]) }

// String returns the profile's name.
func (p Profile) String() string {
	var words []string
	for k, part := range p.parts() {
		words = append(words, forms[k][*part].Word)
	}
	return strings.Join(words, "-")
}

// ParseProfile reads a profile's name.
func ParseProfile(name string) (Profile, error) {
	words := strings.Split(name, "-")
	if len(words) != len(forms) {
		return Profile{}, fmt.Errorf("profile %.60q: want five words such as %s", name, Profile{})
	}
	var p Profile
	for k, part := range p.parts() {
		i := slices.IndexFunc(forms[k], func(f Form) bool { return f.Word == words[k] })
		if i < 0 {
			var known []string
			for _, f := range forms[k] {
				known = append(known, f.Word)
			}
			return Profile{}, fmt.Errorf(
				"profile %.60q: %.60q is not known, want one of %s", name, words[k],
				strings.Join(known, ", "),
			)
		}
		*part = uint8(i)
	}
	return p, nil
}

// Profiles lists every profile there is.
func Profiles() []Profile {
	all := []Profile{{}}
	for k := range forms {
		var longer []Profile
		for _, p := range all {
			for i := range forms[k] {
				*p.parts()[k] = uint8(i)
				longer = append(longer, p)
			}
		}
		all = longer
	}
	return all
}

// MarshalText and UnmarshalText make the text form the JSON form.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (p *Profile) UnmarshalText(text []byte) error {
	q, err := ParseProfile(string(text))
	if err == nil {
		*p = q
	}
	return err
}
