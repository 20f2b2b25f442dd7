package installed

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"lockstep/internal/defaults"
	"lockstep/internal/fingerprint"
)

// fingerprintFile is what somebody needs to add a profile: what was asked, all bits of the
// answers, those of the form that comes nearest, and where this was.
type fingerprintFile struct {
	What   string `json:"what"`
	System string `json:"system"`
	CPU    string `json:"cpu"`
	Found  *Found `json:"found"`

	Probes  []probeReport `json:"probes"`
	Rollout rolloutReport `json:"rollout"`
}

// Bytes are in base64, numbers in them little-endian.
type probeReport struct {
	question
	What   string             `json:"what"`
	Answer []byte             `json:"answer,omitempty"`
	Forms  []formReport       `json:"forms"`
	Judged fingerprint.Answer `json:"judged"`
}

type formReport struct {
	Word string `json:"word"`
	What string `json:"what"`
	Bits []byte `json:"bits"`
}

type rolloutReport struct {
	rolloutQuestion
	NetworkSHA256 string `json:"network_sha256"`
	Logits        []byte `json:"logits,omitempty"`
	Lataccel      []byte `json:"lataccel,omitempty"`
}

// Fingerprint asks a Python afresh and returns what somebody needs to add a profile, as JSON.
func Fingerprint(ctx context.Context, python string) ([]byte, *Found, error) {
	found, r, err := Ask(ctx, python)
	if err != nil {
		return nil, nil, err
	}
	f := fingerprintFile{
		What: "answers of a Python's NumPy, pandas and ONNX Runtime to lockstep's probes, " +
			"for a profile that is to be added: CONTRIBUTING.md says how",
		System: runtime.GOOS + "/" + runtime.GOARCH, CPU: processor(), Found: found,
	}
	probes, err := fingerprint.Probes()
	if err != nil {
		return nil, nil, err
	}
	for k, p := range probes {
		report := probeReport{
			question: newQuestion(p),
			What:     p.What,
			Answer:   r.Replies[p.Name].Bits,
			Judged:   found.Answers[k], // as many as are asked, since it has not failed
		}
		for i := range p.Forms {
			report.Forms = append(
				report.Forms,
				formReport{p.Forms[i].Word, p.Forms[i].What, p.Expected(&p.Forms[i])},
			)
		}
		f.Probes = append(f.Probes, report)
	}
	f.Rollout = rolloutReport{
		NetworkSHA256: defaults.ModelSHA256,
		Logits:        r.Logits,
		Lataccel:      r.Lataccel,
	}
	if f.Rollout.rolloutQuestion, err = newRolloutQuestion(); err != nil {
		return nil, nil, err
	}
	data, err := json.MarshalIndent(f, "", " ")
	return append(data, '\n'), found, err
}

// Summary is what each probe was answered, in a line.
func (f *Found) Summary() string {
	text := ""
	for _, a := range f.Answers {
		text += a.Probe + " " + a.Describe() + ", "
	}
	if f.Rollout.Steps == 0 {
		return text + "no rollout"
	}
	return text + fmt.Sprintf("%d of %d steps of a rollout equal", f.Rollout.Equal, f.Rollout.Steps)
}
