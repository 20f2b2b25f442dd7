//go:build cgo

package main

import (
	"os"

	"lockstep"
	"lockstep/defaults"
	"lockstep/engines"
	"lockstep/generate"
	"lockstep/gpu/driver"
	"lockstep/internal/assets"
	"lockstep/internal/model"
	"lockstep/internal/routecache"
	"lockstep/reference"
)

// simulator is an engine that is open.
type simulator struct{ lockstep.Simulator }

func (s *simulator) Close() error { return engines.Close(s.Simulator) }

type openRequest struct {
	Engine, Model, Profile string
	Workers                int
	Stream                 uintptr // on the GPU
}

type openAnswer struct {
	Handle  int64            `json:"handle"`
	Engine  string           `json:"engine"`
	Profile lockstep.Profile `json:"profile"`
	Model   string           `json:"model"`
	Notices []string         `json:"notices"`
	GPU     *int             `json:"gpu"` // number of the GPU whose memory rollouts share with the caller, if they do
}

func open(_ *task, _ int64, request, _ []byte) (any, error) {
	var q openRequest
	if err := parse(request, &q); err != nil {
		return nil, err
	}
	profile := reference.HostProfile()
	if q.Profile != "host" {
		var err error
		if profile, err = lockstep.ParseProfile(q.Profile); err != nil {
			return nil, usageError{err}
		}
	}
	path, notices, err := findModel(q.Model)
	if err != nil {
		return nil, err
	}
	s, more, err := engines.Choose(q.Engine, engines.Config{Model: path, Profile: profile, Workers: q.Workers, Stream: &q.Stream}, q.Profile != "host")
	if err != nil {
		return nil, usage(err)
	}
	a := openAnswer{Engine: s.Name(), Profile: s.Profile(), Model: path, Notices: append(notices, more...)}
	if g, ok := s.(interface{ Info() (driver.Info, error) }); ok {
		if info, err := g.Info(); err == nil && info.Shared {
			a.GPU = &info.Number
		}
	}
	a.Handle = put(&simulator{s})
	return a, nil
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
		notices = []string{"using the project's own network, since the challenge's is not here: costs are not comparable with the challenge's"}
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
		found, err := lockstep.RouteFiles(path, q.Limit)
		if err != nil {
			return nil, usage(err)
		}
		files = append(files, found...)
	}
	cache := routecache.Cache{Loader: lockstep.Loader{Profile: s.Profile(), SeedPrefix: q.SeedPrefix}, Workers: q.Workers}
	if q.Cache && len(files) > 1 {
		cache.Dir, _ = routecache.DefaultDir()
	}
	loaded, errs, _ := cache.Load(t, files)
	answer := loadAnswer{Names: []string{}, Files: []string{}, Rows: []int{}, Failed: []failure{}}
	var all routes
	for i, r := range loaded {
		if errs[i] != nil {
			answer.Failed = append(answer.Failed, *describe(errs[i]))
			continue
		}
		all = append(all, r)
		answer.Names, answer.Files, answer.Rows = append(answer.Names, r.Name), append(answer.Files, files[i]), append(answer.Rows, r.Len())
	}
	if len(all) == 0 && len(files) > 0 {
		return nil, errs[0]
	}
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
		for _, column := range [][]float64{r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand} {
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
