package lockstep

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Seen declares one number that a network observes at step t:
//
//	float32(((Of[t+At] - Less[t+LessAt]) - Shift) / Unit), clipped to ±ObservationLimit
//
// in float64 up to the cast, each operation rounded. Its text is such as
// "target[0]-lataccel[-1]", "v[7]-20/15" or "observation[13]".
type Seen struct {
	Of, Less    Source // of nothing, nothing is subtracted
	At, LessAt  int
	Shift, Unit float64
}

// Source is where a number of an observation comes from.
type Source int

const (
	SourceNone        Source = iota
	SourceObservation        // an element of the observation that is not declared: At is its index
	SourceAction             // the controller's own, after clipping; 0 before ControlStartIdx
	SourceLataccel           // m/s²
	SourceTarget             // and so for the rows of the plan
	SourceRoll
	SourceSpeed
	SourceAcceleration
)

const (
	// ObservationSize is the length of an observation that is not declared.
	ObservationSize = 256
	// MaxWidth bounds an observation, and a layer's inputs and outputs.
	MaxWidth = 1024
	// ObservationLimit is the largest magnitude in an observation.
	ObservationLimit = 5
)

// SeenBack is how far back a network sees: a controller is first asked at step
// ContextLength, and a network acts from ControlStartIdx on. SeenAhead is how far a plan
// reaches. Rows beyond the last are the last.
const (
	SeenBack  = ControlStartIdx - ContextLength
	SeenAhead = FuturePlanSteps - 1
)

// sources are the names of sources, and the places that each has.
var sources = [...]struct {
	name      string
	from, end int
}{
	SourceNone:         {"", 0, 0},
	SourceObservation:  {"observation", 0, ObservationSize},
	SourceAction:       {"action", -SeenBack, 0},
	SourceLataccel:     {"lataccel", -SeenBack, 0},
	SourceTarget:       {"target", -SeenBack, SeenAhead + 1},
	SourceRoll:         {"roll", -SeenBack, SeenAhead + 1},
	SourceSpeed:        {"v", -SeenBack, SeenAhead + 1},
	SourceAcceleration: {"a", -SeenBack, SeenAhead + 1},
}

// seenText is the text of a Seen.
var seenText = func() *regexp.Regexp {
	const place, number = `([a-z]+)\[(-?\d{1,4})\]`, `([-+]?[0-9.]+(?:e[-+]?\d+)?)`
	return regexp.MustCompile(
		`^` + place + `(?:-` + place + `)?(?:-` + number + `)?(?:/` + number + `)?$`,
	)
}()

// ParseSeen reads the text of a Seen; spaces do not count.
func ParseSeen(text string) (s Seen, err error) {
	m := seenText.FindStringSubmatch(strings.ReplaceAll(text, " ", ""))
	if m == nil {
		return s, fmt.Errorf(
			"observation %.60q: want such as target[0]-lataccel[-1], v[7]-20/15 or observation[13]",
			text,
		)
	}
	numbers := [2]float64{0, 1}
	for i, word := range m[5:] {
		if word == "" {
			continue
		}
		if numbers[i], err = strconv.ParseFloat(word, 64); err != nil {
			return s, fmt.Errorf("observation %.60q: %.30q is not a number", text, word)
		}
	}
	s.Of, s.At = parsePlace(m[1], m[2])
	s.Less, s.LessAt = parsePlace(m[3], m[4])
	s.Shift, s.Unit = numbers[0], numbers[1]
	if s.Of < 0 || s.Less < 0 {
		var names []string
		for _, source := range sources[1:] {
			names = append(names, source.name)
		}
		return s, fmt.Errorf(
			"observation %.60q: want one of %s", text, strings.Join(names, ", "),
		)
	}
	return s, s.valid()
}

// parsePlace finds a source by its name: negative if there is none.
func parsePlace(name, at string) (Source, int) {
	i := -1
	for k, source := range sources {
		if source.name == name {
			i = k
		}
	}
	n, _ := strconv.Atoi(at)
	return Source(i), n
}

// String is its text.
func (s Seen) String() string {
	text := s.Of.at(s.At)
	if s.Less != SourceNone {
		text += "-" + s.Less.at(s.LessAt)
	}
	if s.Shift != 0 {
		text += "-" + shortest(s.Shift)
	}
	if s.Unit != 1 {
		text += "/" + shortest(s.Unit)
	}
	return text
}

func (s Source) at(at int) string { return fmt.Sprintf("%s[%d]", sources[s].name, at) }

// valid refuses places that a source does not have, and numbers that are not finite.
func (s Seen) valid() error {
	for i, p := range []struct {
		of Source
		at int
	}{{s.Of, s.At}, {s.Less, s.LessAt}} {
		if p.of < 0 || int(p.of) >= len(sources) || i == 0 && p.of == SourceNone {
			return fmt.Errorf("observation: no source %d", int(p.of))
		}
		if has := sources[p.of]; p.of != SourceNone && (p.at < has.from || p.at >= has.end) {
			return fmt.Errorf(
				"observation %v: %s has %d to %d", s, has.name, has.from, has.end-1,
			)
		}
	}
	if math.IsNaN(s.Shift+s.Unit) || math.IsInf(s.Shift, 0) || math.IsInf(s.Unit, 0) ||
		s.Unit == 0 {
		return fmt.Errorf("observation %v: want finite numbers, and a divisor that is not 0", s)
	}
	return nil
}

// checkSeen refuses what no network can be declared to see; nil is nothing declared.
func checkSeen(all []Seen) error {
	if all != nil && (len(all) == 0 || len(all) > MaxWidth) {
		return fmt.Errorf("%d numbers to observe, want 1 to %d", len(all), MaxWidth)
	}
	for _, s := range all {
		if err := s.valid(); err != nil {
			return err
		}
	}
	return nil
}

// ParseSees reads texts of Seen; none is nil.
func ParseSees(texts []string) (all []Seen, err error) {
	for _, text := range texts {
		s, err := ParseSeen(text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, checkSeen(all)
}

// LooksAtObservation reports whether some of these need the observation that is not declared.
func LooksAtObservation(all []Seen) bool {
	return slices.ContainsFunc(all, func(s Seen) bool {
		return s.Of == SourceObservation || s.Less == SourceObservation
	})
}

// shortest formats x with the fewest digits that read back as x.
func shortest(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
