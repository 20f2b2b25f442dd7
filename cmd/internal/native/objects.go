//go:build cgo

package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// objects are what Python holds handles of. A handle is never given out twice.
var objects = struct {
	sync.RWMutex
	last int64
	all  map[int64]any
}{all: map[int64]any{}}

var (
	errClosed          = errors.New("it has been closed")
	errSimulatorClosed = fmt.Errorf("the rollouts' simulator: %w", errClosed)
)

// closer is an object that holds more than memory.
type closer interface{ Close() error }

func put(object any) int64 {
	objects.Lock()
	defer objects.Unlock()
	objects.last++
	objects.all[objects.last] = object
	return objects.last
}

func get[T any](handle int64) (T, error) {
	objects.RLock()
	object, ok := objects.all[handle]
	objects.RUnlock()
	var none T
	if !ok {
		return none, errClosed
	}
	t, ok := object.(T)
	if !ok {
		return none, fmt.Errorf("handle %d is a %T, not a %T", handle, object, none)
	}
	return t, nil
}

func drop(handle int64) error {
	objects.Lock()
	object := objects.all[handle]
	delete(objects.all, handle)
	objects.Unlock()
	if c, ok := object.(closer); ok {
		return c.Close()
	}
	return nil
}

// count is how many objects there are.
func count() int {
	objects.RLock()
	defer objects.RUnlock()
	return len(objects.all)
}

// A method answers a request about an object.
type method func(t *task, handle int64, request, buffer []byte) (any, error)

// A turn is taken by the call that uses an object which one call at a time may use, and
// put back by it; after the last there is none.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t.release()
	return t
}

// acquire waits for calls of other threads. It is an error if one of them was the last.
func (t turn) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case _, ok := <-t:
		if !ok {
			return errClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) release() { t <- struct{}{} }

// last ends an object's use: now, or as soon as the call that uses it is over.
func (t turn) last(end func() error) error {
	select {
	case <-t:
		defer close(t)
		return end()
	default:
		go func() {
			<-t
			defer close(t)
			end()
		}()
		return nil
	}
}

// A taken object is used by one call at a time.
type taken interface {
	acquire(ctx context.Context) error
	release()
}

// of is a method of objects of type T with requests of type Q.
func of[T, Q any](f func(t *task, object T, request Q, buffer []byte) (any, error)) method {
	return func(t *task, handle int64, request, buffer []byte) (_ any, failed error) {
		object, err := get[T](handle)
		if err != nil {
			return nil, err
		}
		var q Q
		if err := parse(request, &q); err != nil {
			return nil, err
		}
		if s, ok := any(object).(*simulator); ok {
			done, err := s.use(t)
			if err != nil {
				return nil, err
			}
			defer func() { failed = done(failed) }()
		}
		if o, ok := any(object).(taken); ok {
			if err := o.acquire(t); err != nil {
				return nil, err
			}
			defer o.release()
		}
		return f(t, object, q, buffer)
	}
}

// parse reads a request. What it has no field for would be forgotten: it is refused.
func parse(request []byte, q any) error {
	d := json.NewDecoder(bytes.NewReader(request))
	d.DisallowUnknownFields()
	err := d.Decode(q)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return usagef(
			"%s: %s, want one of type %v", strings.ToLower(wrong.Field), wrong.Value, wrong.Type,
		)
	}
	return usage(err)
}

// floats is a buffer as n numbers.
func floats[T float32 | float64](buffer []byte, n int) ([]T, error) {
	var x T
	if len(buffer) != n*int(unsafe.Sizeof(x)) {
		return nil, fmt.Errorf("a buffer of %d bytes, want %d numbers of %T", len(buffer), n, x)
	}
	if n == 0 {
		return nil, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&buffer[0])), n), nil
}

// nothing is the answer and the request that say nothing.
type nothing struct{}

// methods are all that Python can call, by name.
var methods = map[string]method{}

// enter adds methods. Each family of simulators beside tinyphysics enters its own from its file.
func enter(some map[string]method) {
	for name, m := range some {
		if methods[name] != nil {
			panic("two methods have the name " + name)
		}
		methods[name] = m
	}
}

func init() { // they refer to one another
	enter(map[string]method{
		"open":      open,
		"installed": without(askInstalled),
		"generate":  generated,
		"close": func(_ *task, handle int64, _, _ []byte) (any, error) {
			return nothing{}, drop(handle)
		},

		"load":    of(load),
		"make":    of(makeRoutes),
		"columns": of(columns),
		"rollout": of(rollout),
		"reset":   of(reset),

		"logits":  of(logits),
		"network": network,
		"save":    of(save),
		"export":  of(exported),

		"collect": of(collect),
		"gather":  of(gather),
		"observe": of(observe),

		"device_costs":   of(deviceCosts),
		"device_observe": of(deviceObserve),

		"step":        of(step),
		"follow":      of(follow),
		"precede":     of(precede),
		"synchronize": of(synchronize),

		"episodes_fields": without(episodesFields),
		"episodes_show":   of(showEpisodes),
		"episodes_step":   of(stepEpisodes),

		"why":      of(why),
		"costs":    of(costs),
		"features": of(features),
		"snapshot": of(takeSnapshot),

		"device_features": of(deviceFeatures),

		"restore": of(restore),
		"fork":    of(fork),
		"slopes":  of(slopes),
		"stats":   of(stats),
		"roll":    of(advance),
		"at":      of(at),
		"bytes":   of(snapshotBytes),
		"read":    readSnapshot,

		"fetch":        without(fetched),
		"tune":         of(tune),
		"plan_actions": of(planActions),
		"plan_size":    without(planSize),

		"plan_shards":    without(planShards),
		"run_shard":      without(runShard),
		"merge_shards":   without(mergeShards),
		"schema":         schemaOf,
		"compare":        of(compare),
		"compare_traces": without(compareTraces),
		"page":           of(page),

		"handles": func(*task, int64, []byte, []byte) (any, error) { return count(), nil },
		"panic":   func(*task, int64, []byte, []byte) (any, error) { panic("as was asked for") },
	})
}
