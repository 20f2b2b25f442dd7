package runs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
)

// Version is of plans; it changes with what one means.
const Version = 2

// Plan is what a run computes.
type Plan struct {
	Version     int                 `json:"version"`
	Model       string              `json:"model_sha256"`
	Profile     lockstep.Profile    `json:"profile"`
	Engine      string              `json:"engine"`
	Build       string              `json:"build"` // of the engine: what it is made of and by whom
	Controllers []PlannedController `json:"controllers"`
	Routes      []PlannedRoute      `json:"routes"`
	Search      *Search             `json:"search,omitempty"`
	Planning    *Planning           `json:"planning,omitempty"`
	Shards      int                 `json:"shards,omitempty"`
}

// PlannedController is one controller of a plan.
type PlannedController struct {
	Name string `json:"name"`
	// of its source or parameters, where the name does not hold them
	SHA256 string `json:"sha256,omitempty"`
	Made   string `json:"made,omitempty"` // what else it is made of: see lockstep.Batch.Made
}

func (c PlannedController) String() string {
	if c.SHA256 == "" {
		return fmt.Sprintf("%q", c.Name)
	}
	return fmt.Sprintf("%q (%.12s)", c.Name, c.SHA256)
}

// Search is a search whose candidates follow from what those before came to. They are
// further controllers, behind the plan's own.
type Search struct {
	Kind        string `json:"kind"`
	Seed        uint64 `json:"seed"`
	Population  int    `json:"population"`
	Generations int    `json:"generations"`
}

func (s *Search) String() string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%d generations of %d %s, seed %d",
		s.Generations, s.Population, s.Kind, s.Seed)
}

// Planning is a search of each route's actions, from the plan's controller. Each record is what
// one of its steps chose for a route.
type Planning struct {
	Noise   []string `json:"noise"`  // one search for each
	Rounds  int      `json:"rounds"` // 0: the search's own
	Window  int      `json:"window"`
	Horizon int      `json:"horizon"`
	Seeds   int      `json:"seeds"`
	Seed    uint64   `json:"seed"`
	Steps   int      `json:"steps"` // of all searches together
}

func (p *Planning) String() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf(
		"of %s noise with %d rounds (0: as many as it has), windows of %d steps and horizons of "+
			"%d, %d seeds, seed %d, in %d steps",
		strings.Join(p.Noise, " and "), p.Rounds, p.Window, p.Horizon, p.Seeds, p.Seed, p.Steps,
	)
}

// PlannedRoute is one route of a plan.
type PlannedRoute struct {
	Name   string `json:"name"`
	Seed   uint32 `json:"seed"`
	SHA256 string `json:"sha256"` // of its columns
}

// PlanRoute is a loaded route's entry in a plan.
func PlanRoute(r *lockstep.Route) PlannedRoute {
	h := sha256.New()
	for _, column := range r.Columns() {
		bits := make([]byte, 0, 8*len(*column))
		for _, x := range *column {
			bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(x))
		}
		h.Write(bits)
	}
	return PlannedRoute{Name: r.Name, Seed: r.Seed, SHA256: hex.EncodeToString(h.Sum(nil))}
}

// Rollouts is how many rollouts the plan has, or choices if it is one of actions.
func (p *Plan) Rollouts() int {
	if p.Planning != nil {
		return p.Planning.Steps * len(p.Routes)
	}
	controllers := len(p.Controllers)
	if p.Search != nil {
		controllers += p.Search.Population * p.Search.Generations
	}
	return controllers * len(p.Routes)
}

// Names are those of the plan's controllers and of its routes.
func (p *Plan) Names() (controllers, routes []string) {
	for _, c := range p.Controllers {
		controllers = append(controllers, c.Name)
	}
	for _, r := range p.Routes {
		routes = append(routes, r.Name)
	}
	return controllers, routes
}

// Key identifies the plan: the SHA-256 of its text.
func (p *Plan) Key() string {
	sum := sha256.Sum256(p.text())
	return hex.EncodeToString(sum[:])
}

// text is the plan as it is written: one line a controller and a route would be
// nicer to read, and hard to keep stable.
func (p *Plan) text() []byte {
	q := *p
	q.Version = Version
	text, err := json.MarshalIndent(q, "", " ")
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(text, '\n')
}

// readRecord reads what is in a file, which has no fields but its own.
func readRecord[T any](path, name string) (*T, error) {
	data, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return nil, err
	}
	v := new(T)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return nil, fmt.Errorf("%s: not %s: %w", path, name, err)
	}
	return v, nil
}

// openPlan reads the plan of a folder.
func openPlan(dir string) (*Plan, error) {
	path := filepath.Join(dir, planName)
	p, err := readRecord[Plan](path, "a plan")
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Kept reports whether a folder has the plan of a run, whatever that says.
func Kept(dir string) bool {
	_, err := fileio.Disk.Stat(filepath.Join(dir, planName))
	return err == nil
}

func (p *Plan) check() error {
	switch {
	case p.Version != Version:
		return fmt.Errorf(
			"a plan of version %d, want %d: it is another lockstep's, whose results may "+
				"hold what was lost with a process; give another folder",
			p.Version, Version,
		)
	case p.Rollouts() == 0:
		return errors.New("a plan of no rollouts")
	case p.Shards < 0 || p.Shards > p.Rollouts():
		return fmt.Errorf(
			"%d shards of %d rollouts: want no more shards than rollouts", p.Shards, p.Rollouts(),
		)
	}
	return nil
}

// Difference says in what two plans first differ, for people.
func (p *Plan) Difference(q *Plan) string {
	switch {
	case p.Model != q.Model:
		return fmt.Sprintf("the network has SHA-256 %.12s, there it is %.12s", q.Model, p.Model)
	case p.Profile != q.Profile:
		return fmt.Sprintf("the profile is %v, there it is %v", q.Profile, p.Profile)
	case p.Engine != q.Engine:
		return fmt.Sprintf("the engine is %s, there it is %s", q.Engine, p.Engine)
	case p.Build != q.Build:
		return fmt.Sprintf("the engine's build is %s, there it is %s", q.Build, p.Build)
	case len(p.Controllers) != len(q.Controllers):
		return fmt.Sprintf("%d controllers, there %d", len(q.Controllers), len(p.Controllers))
	case len(p.Routes) != len(q.Routes):
		return fmt.Sprintf("%d routes, there %d", len(q.Routes), len(p.Routes))
	case p.Search.String() != q.Search.String():
		return fmt.Sprintf("the search is %v, there it is %v", q.Search, p.Search)
	case p.Planning.String() != q.Planning.String():
		return fmt.Sprintf("the planning is %v, there it is %v", q.Planning, p.Planning)
	case p.Shards != q.Shards:
		return fmt.Sprintf("%d shards, there %d", q.Shards, p.Shards)
	}
	for i, c := range p.Controllers {
		if other := q.Controllers[i]; c.Name == other.Name && c.SHA256 == other.SHA256 &&
			c.Made != other.Made {
			return fmt.Sprintf(
				"controller %d is made of %s, there of %s", i, others(other.Made, c.Made),
				others(c.Made, other.Made),
			)
		} else if c != other {
			return fmt.Sprintf("controller %d is %v, there it is %v", i, q.Controllers[i], c)
		}
	}
	for i, r := range p.Routes {
		if r != q.Routes[i] {
			return fmt.Sprintf(
				"route %d is %q (seed %d, %.12s), there it is %q (seed %d, %.12s)", i,
				q.Routes[i].Name, q.Routes[i].Seed, q.Routes[i].SHA256, r.Name, r.Seed, r.SHA256,
			)
		}
	}
	return ""
}

// others are the lines of what one controller is made of, and another is not.
func others(of, not string) string {
	var lines []string
	for line := range strings.SplitSeq(of, "\n") {
		if !slices.Contains(strings.Split(not, "\n"), line) {
			lines = append(lines, line)
		}
	}
	return cmp.Or(strings.Join(lines, ", "), "nothing else")
}

// adopt writes the plan into a folder, or holds it to the plan that is there.
func (p *Plan) adopt(dir string) error {
	path := filepath.Join(dir, planName)
	old, err := openPlan(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := p.check(); err != nil {
			return err
		}
		return fileio.WriteFile(path, p.text())
	case err != nil:
		return err
	}
	if d := old.Difference(p); d != "" {
		return fmt.Errorf(
			"%s is of another run: %s; give another folder, or remove this one, whole", path, d,
		)
	}
	return nil
}
