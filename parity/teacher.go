package parity

import "lockstep/parity/schema"

// A Teacher is a trajectory: the values of the schema's Teach stages at every step.
type Teacher rollout

// NewTeacher is the trajectory of a rollout's steps, nil if they lack something.
func NewTeacher(s *schema.Schema, steps []*schema.Step) *Teacher {
	r := newRollout(s)
	for _, step := range steps {
		r.add(step, false)
	}
	if r.lacking {
		return nil
	}
	return (*Teacher)(r)
}

// Taught are a teacher's values of a stage from the first step on, one array after the
// other if they are arrays; nil without a teacher.
func Taught[T float32 | float64 | int32 | int64 | uint8](t *Teacher, stage string) []T {
	if t == nil {
		return nil
	}
	return schema.Elements[T](t.columns[t.schema.Index(stage)])
}

// Steps is how many steps a trajectory has.
func (t *Teacher) Steps() int { return t.digests.Len() }

// Overwrite puts the teacher's arrays of its k-th step in place of those of s, where
// these lie: an engine that shows its own goes on from them.
func (t *Teacher) Overwrite(k int, s *schema.Step) {
	for i, column := range t.columns {
		size := len(column) / t.Steps()
		copy(s.Data[i], column[k*size:(k+1)*size])
	}
}

// rollout is one side of a task, kept.
type rollout struct {
	schema  *schema.Schema
	digests schema.Digests
	full    []*schema.Step // the steps in full, if asked for
	// by stage: the values of those that can be taught, of a rollout that teaches
	columns [][]byte
	lacking bool // a step, or what can be taught of one
	past    int  // steps beyond the schema's end, which are not compared
	end     End
}

func newRollout(s *schema.Schema) *rollout {
	return &rollout{schema: s, columns: make([][]byte, len(s.Stages))}
}

func (r *rollout) step(i int) *schema.Step {
	if r.full != nil {
		return r.full[i]
	}
	return r.digests.At(i)
}

// add keeps a step.
func (r *rollout) add(step *schema.Step, full bool) {
	r.lacking = r.lacking || step.Index != r.schema.First+r.digests.Len()
	r.digests.Append(step)
	if full {
		r.full = append(r.full, step.Clone())
	}
	for i := range r.columns {
		g := &r.schema.Stages[i]
		switch {
		case !g.Teach:
		case !step.Has.Has(i) || g.IsArray() && len(step.Data[i]) != g.Size():
			r.lacking = r.lacking || !g.Optional
		case g.IsArray():
			r.columns[i] = append(r.columns[i], step.Data[i]...)
		default:
			r.columns[i] = g.Type.AppendBits(r.columns[i], step.Bits[i])
		}
	}
}

// teacher is the trajectory, or nil if it lacks a step that the running side simulates.
func (r *rollout) teacher(seen int) *Teacher {
	if r.end.of == nil || r.end.Err != nil || r.lacking || r.digests.Len() < seen {
		return nil
	}
	return (*Teacher)(r)
}
