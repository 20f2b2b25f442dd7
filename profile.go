package lockstep

import (
	"fmt"
	"strings"
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
)

// Softmax is the number of lanes in the attention softmax, which is that of the
// CPU that ONNX Runtime runs on.
type Softmax uint8

const (
	SoftmaxAVX512 Softmax = iota // 16 lanes
	SoftmaxAVX2                  // 8 lanes
)

// Exp is NumPy's float32 exponential. The variants differ on 37 inputs.
type Exp uint8

const (
	ExpU Exp = iota // range reduction rounds the product x·log2(e)
	ExpF            // range reduction fuses it
)

// Sin is the float64 sine of the route's roll.
type Sin uint8

const (
	SinFMA Sin = iota // glibc on a CPU with FMA
)

// CSV is pandas' reading of a decimal number.
type CSV uint8

const (
	CSV2     CSV = iota // pandas up to 2.x: two roundings for every digit
	CSVExact            // correctly rounded
)

// The words of the text form, indexed by the constants above.
var (
	layerNormWords = []string{"ort1.30", "ort1.27", "ort1.23"}
	softmaxWords   = []string{"avx512", "avx2"}
	expWords       = []string{"expU", "expF"}
	sinWords       = []string{"sinfma"}
	csvWords       = []string{"csv2", "csvexact"}
)

// String returns the profile's name.
func (p Profile) String() string {
	return strings.Join([]string{
		layerNormWords[p.LayerNorm], softmaxWords[p.Softmax], expWords[p.Exp], sinWords[p.Sin], csvWords[p.CSV],
	}, "-")
}

// ParseProfile reads a profile's name.
func ParseProfile(name string) (Profile, error) {
	words := strings.Split(name, "-")
	if len(words) != 5 {
		return Profile{}, fmt.Errorf("profile %.60q: want five words such as %s", name, Profile{})
	}
	var p Profile
	var err error
	pick := func(word string, words []string) uint8 {
		for i, w := range words {
			if w == word {
				return uint8(i)
			}
		}
		if err == nil {
			err = fmt.Errorf("profile %.60q: %.60q is not known, want one of %s", name, word, strings.Join(words, ", "))
		}
		return 0
	}
	p.LayerNorm = LayerNorm(pick(words[0], layerNormWords))
	p.Softmax = Softmax(pick(words[1], softmaxWords))
	p.Exp = Exp(pick(words[2], expWords))
	p.Sin = Sin(pick(words[3], sinWords))
	p.CSV = CSV(pick(words[4], csvWords))
	return p, err
}

// Profiles lists every profile there is.
func Profiles() []Profile {
	var all []Profile
	for ln := range layerNormWords {
		for sm := range softmaxWords {
			for ex := range expWords {
				for si := range sinWords {
					for cs := range csvWords {
						all = append(all, Profile{LayerNorm(ln), Softmax(sm), Exp(ex), Sin(si), CSV(cs)})
					}
				}
			}
		}
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
