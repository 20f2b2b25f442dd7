//go:build cgo

package native

import (
	"context"
	"os"
	"sync"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/gpu"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/figures"
	"lockstep/internal/generate"
	"lockstep/internal/installed"
	"lockstep/internal/model"
	"lockstep/internal/routecache"
	"lockstep/routefile"
)

// simulator is an engine that is open. Its end ends the calls that use it, and waits for them.
type simulator struct {
	lockstep.Implementation
	ended context.Context
	end   context.CancelFunc
	uses  sync.RWMutex

	counts figures.Meter
}

func newSimulator(s lockstep.Implementation) *simulator {
	ended, end := context.WithCancel(context.Background())
	return &simulator{Implementation: s, ended: ended, end: end}
}

func (s *simulator) Close() error {
	s.end()
	s.uses.Lock()
	defer s.uses.Unlock()
	return s.Implementation.Close()
}

// use begins a call's use of the engine; closing the engine ends the call. The function
// that it returns ends the use, and gives a call that was ended so its error.
func (s *simulator) use(t *task) (done func(error) error, err error) {
	s.uses.RLock()
	if s.ended.Err() != nil {
		s.uses.RUnlock()
		return nil, errClosed
	}
	stop := context.AfterFunc(s.ended, t.cancel)
	return func(err error) error {
		stop()
		s.uses.RUnlock()
		if err != nil && s.ended.Err() != nil {
			return errClosed
		}
		return err
	}, nil
}

type openRequest struct {
	Engine, Model, Profile string
	Python                 string // that is asked which profile it has, where Profile is "host"
	Workers                int
	Stream                 uintptr // on the GPU
}

type openAnswer struct {
	Handle  int64            `json:"handle"`
	Engine  string           `json:"engine"`
	Profile lockstep.Profile `json:"profile"`
	Model   string           `json:"model"`
	Notices []string         `json:"notices"`

	// Arithmetic is what the Python answered, and what of it is not known; Source a line of it.
	Arithmetic *installed.Found `json:"arithmetic"`
	Source     string           `json:"source"`

	// number of the GPU whose memory rollouts share with the caller, if they do
	GPU *int `json:"gpu"`
}

func open(t *task, _ int64, request, _ []byte) (any, error) {
	var q openRequest
	if err := parse(request, &q); err != nil {
		return nil, err
	}
	begin := time.Now()
	profile, found, err := installed.Choose(t, q.Profile, q.Python)
	if err != nil {
		return nil, usage(err)
	}
	path, notices, err := findModel(q.Model)
	if err != nil {
		return nil, err
	}
	s, more, err := engines.Choose(
		q.Engine,
		engines.Config{Model: path, Profile: profile, Workers: q.Workers, Stream: &q.Stream},
		q.Profile != installed.Host,
	)
	if err != nil {
		return nil, usage(err)
	}
	a := openAnswer{
		Engine:     s.Name(),
		Profile:    s.Profile(),
		Model:      path,
		Notices:    append(notices, more...),
		Arithmetic: found,
	}
	if found != nil {
		a.Source = found.String()
		a.Notices = append(a.Notices, found.Warnings()...)
	}
	if g, ok := s.(*gpu.Simulator); ok {
		if info, err := g.Info(); err == nil && info.Shared {
			a.GPU = &info.Number
		}
	}
	own := newSimulator(s)
	own.counts.Opened(begin)
	a.Handle = put(own)
	return a, nil
}

type installedAnswer struct {
	Profile lockstep.Profile `json:"profile"`
	Whole   bool             `json:"whole"` // all parts of it were answered for
	Source  string           `json:"source"`
}

// askInstalled asks a Python for its arithmetic, whatever is computed with.
func askInstalled(t *task, q struct{ Python string }) (any, error) {
	found := installed.Find(t, q.Python)
	return installedAnswer{found.Profile, found.Complete(), found.String()}, t.Err()
}

// findModel is the model asked for, else the challenge's, else the project's own.
func findModel(path string) (found string, notices []string, err error) {
	switch path {
	case "":
		found, err = assets.Find(assets.Model)
		if err == nil {
			if notice, foreign := model.Foreign(found); foreign {
				notices = append(notices, notice)
			}
		}
		if err == nil || os.Getenv("LOCKSTEP_ASSETS") != "" {
			return found, notices, err
		}
		notices = []string{
			"using the project's own network, since the challenge's is not here: costs are not " +
				"comparable with the challenge's",
		}
		path, _, err = defaults.Keep()
		return path, notices, err
	case "own":
		path, _, err = defaults.Keep()
		return path, nil, err
	}
	return path, nil, nil
}

// routes are routes that are loaded.
type routes []*lockstep.Route

type loadRequest struct {
	Paths      []string // files and folders; "own" alone are the project's
	Limit      int      // of each folder, -1 for all
	SeedPrefix string
	Cache      bool
	Workers    int
}

type loadAnswer struct {
	Handle int64     `json:"handle"`
	Names  []string  `json:"names"`
	Files  []string  `json:"files"`
	Rows   []int     `json:"rows"`
	Failed []failure `json:"failed"`

	Notices []string `json:"notices"` // of what is no error
}

func load(t *task, s *simulator, q loadRequest, _ []byte) (any, error) {
	var files []string
	for _, path := range q.Paths {
		if path == "own" && len(q.Paths) == 1 {
			var err error
			if _, path, err = defaults.Keep(); err != nil {
				return nil, err
			}
		}
		found, err := routefile.List(path, q.Limit)
		if err != nil {
			return nil, usage(err)
		}
		files = append(files, found...)
	}
	cache := routecache.Cache{
		Loader:  routefile.Loader{Profile: s.Profile(), SeedPrefix: q.SeedPrefix},
		Workers: q.Workers,
	}
	if q.Cache && len(files) > 1 {
		cache.UseDefault()
	}
	begin := time.Now()
	loaded, errs, stats := cache.Load(t, files)
	answer := loadAnswer{Names: []string{}, Files: []string{}, Rows: []int{}, Failed: []failure{}}
	if stats.Problem != nil {
		answer.Notices = []string{stats.Problem.Error()}
	}
	var all routes
	for i, r := range loaded {
		if errs[i] != nil {
			answer.Failed = append(answer.Failed, *describe(errs[i]))
			continue
		}
		all = append(all, r)
		answer.Names, answer.Files, answer.Rows = append(answer.Names, r.Name),
			append(answer.Files, files[i]), append(answer.Rows, r.Len())
	}
	s.counts.Loaded(begin, len(all)) // as the command line counts them
	if len(all) == 0 && len(files) > 0 {
		return nil, errs[0]
	}
	answer.Handle = put(all)
	return answer, nil
}

type makeRequest struct {
	Names      []string // of the files that they would be in
	Rows       []int
	Raw        []bool // as a file has them, see routefile.Columns
	SeedPrefix string
}

// makeRoutes makes routes of columns, which the buffer has as columns writes them.
func makeRoutes(_ *task, s *simulator, q makeRequest, buffer []byte) (any, error) {
	n := 0
	for _, rows := range q.Rows {
		n += 5 * rows
	}
	in, err := floats[float64](buffer, n)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	loader := routefile.Loader{Profile: s.Profile(), SeedPrefix: q.SeedPrefix}
	answer := loadAnswer{Names: []string{}, Files: q.Names, Rows: q.Rows, Failed: []failure{}}
	var all routes
	for i, rows := range q.Rows {
		c := routefile.Columns{Raw: q.Raw[i]}
		for k := range c.Values {
			c.Values[k], in = in[:rows], in[rows:]
		}
		route, err := loader.Make(q.Names[i], c)
		if err != nil {
			return nil, err
		}
		all, answer.Names = append(all, route), append(answer.Names, route.Name)
	}
	s.counts.Loaded(begin, len(all))
	answer.Handle = put(all)
	return answer, nil
}

// columns writes the columns of routes, one route after the other, each as five
// rows: roll lataccel, v ego, a ego, target lataccel, steer command.
func columns(_ *task, all routes, _ nothing, buffer []byte) (any, error) {
	n := 0
	for _, r := range all {
		n += 5 * r.Len()
	}
	out, err := floats[float64](buffer, n)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		for _, column := range [][]float64{
			r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand,
		} {
			out = out[copy(out, column):]
		}
	}
	return nothing{}, nil
}

// pick are some of the routes of a handle.
func pick(handle int64, positions []int) (routes, error) {
	all, err := get[routes](handle)
	if err != nil {
		return nil, err
	}
	picked := make(routes, len(positions))
	for i, k := range positions {
		if k < 0 || k >= len(all) {
			return nil, usagef("route %d of %d", k, len(all))
		}
		picked[i] = all[k]
	}
	return picked, nil
}

// generated writes routes of a seed into a folder.
func generated(t *task, _ int64, request, _ []byte) (any, error) {
	var q struct {
		Folder string
		Routes int
		Seed   uint64
	}
	if err := parse(request, &q); err != nil {
		return nil, err
	}
	return nothing{}, usage(generate.Write(t, q.Folder, generate.Options{
		NumRoutes: q.Routes, Seed: q.Seed, Progress: func(done int) { t.done.Store(int64(done)) },
	}))
}
