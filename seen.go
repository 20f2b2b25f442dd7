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
	Nothing   Source = iota
	Observed         // an element of the observation that is not declared: At is its index
	Actions          // the controller's own, after clipping; 0 before ControlStartIdx
	Lataccels        // m/s²
	Targets          // and so for the rows of the plan
	Rolls
	Speeds
	Accelerations
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
	Nothing:       {"", 0, 0},
	Observed:      {"observation", 0, ObservationSize},
	Actions:       {"action", -SeenBack, 0},
	Lataccels:     {"lataccel", -SeenBack, 0},
	Targets:       {"target", -SeenBack, SeenAhead + 1},
	Rolls:         {"roll", -SeenBack, SeenAhead + 1},
	Speeds:        {"v", -SeenBack, SeenAhead + 1},
	Accelerations: {"a", -SeenBack, SeenAhead + 1},
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
	return s, s.check()
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
	if s.Less != Nothing {
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

// check refuses places that a source does not have, and numbers that are not finite.
func (s Seen) check() error {
	for i, p := range []struct {
		of Source
		at int
	}{{s.Of, s.At}, {s.Less, s.LessAt}} {
		if p.of < 0 || int(p.of) >= len(sources) || i == 0 && p.of == Nothing {
			return fmt.Errorf("observation: no source %d", int(p.of))
		}
		if has := sources[p.of]; p.of != Nothing && (p.at < has.from || p.at >= has.end) {
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
		if err := s.check(); err != nil {
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
		return s.Of == Observed || s.Less == Observed
	})
}
