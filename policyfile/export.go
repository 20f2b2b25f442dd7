package policyfile

import (
	"embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"lockstep"
)

//go:embed *.py
var sources embed.FS

// Export writes a policy as a controller of the challenge: the source of one Python file,
// which needs NumPy and, for a network, ONNX Runtime. In the challenge's own program
// it has the actions of the engines, bit for bit.
func Export(p lockstep.Native) ([]byte, error) {
	values := map[string]string{}
	if gains := p.Gains(); gains != nil {
		var words []string
		for _, g := range gains {
			words = append(words, strconv.FormatFloat(g, 'g', -1, 64))
		}
		values[fmt.Sprintf("(0.0,) * %d", len(words))] = "(" + strings.Join(words, ", ") + ")"
	}
	if p, ok := p.(*lockstep.Network); ok {
		values["SCALE = 0.25"] = "SCALE = " + strconv.FormatFloat(p.Scale, 'g', -1, 64)
		if p.Sees != nil {
			values[`SEES = ""`] = `SEES = "` + strings.Join(texts(p.Sees), " ") + `"`
		}
		values[`MODEL = ""`] = `MODEL = "` + base64.StdEncoding.EncodeToString(Encode(p)) + `"`
	}
	data, err := sources.ReadFile(p.Kind().String() + ".py")
	if err != nil {
		return nil, fmt.Errorf(
			"a policy of kind %s is not exported: want pid, pidff or a network (zero is the "+
				"challenge's own, and no controller knows its route, which a table would need)",
			p.Kind(),
		)
	}
	source := string(data)
	for from, to := range values {
		if strings.Count(source, from) != 1 {
			return nil, fmt.Errorf("%s.py has not one %q", p.Kind(), from)
		}
		source = strings.Replace(source, from, to, 1)
	}
	return []byte(source), nil
}
