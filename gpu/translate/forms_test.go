package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	classic "lockstep/gpu/classic/module"
	"lockstep/gpu/module"
)

// unheld are the forms of operands in shipped machine code that no specimen has: most are sums
// in addresses, or zeros that are stored. Recordings alone hold them.
var unheld = []string{
	"d -|R",
	"h number",
	"read generic desc[R0][R0.0+-0]",
	"read global desc[R0][R0.0+-0]",
	"read local [R0+0]",
	"read shared [R0+-0]",
	"read shared [R0+R0+-0]",
	"read shared [R0+R0+0]",
	"read shared [R0+R0]",
	"t SRZ",
	"write generic RZ",
	"write generic desc[R0][R0.0+-0]",
	"write generic desc[R0][R0.0+0]",
	"write global RZ",
	"write local RZ",
	"write shared RZ",
	"write shared [R0+-0]",
	"write shared [R0+R0+0]",
	"write shared [R0+R0]",
}

// TestForms: what a row computes and how its operands are read are apart in the translation. The
// rows are held by TestSemantics. Here every form of an operand that is shipped, by its kind, its
// signs and what it is, occurs in a specimen, whose result shows what is read; or it is unheld.
func TestForms(t *testing.T) {
	held := map[string]string{}
	m, err := MachineCode([]byte(specimenFile(t, "cubin")), specimenFile(t, "sass"))
	if err != nil {
		t.Fatal(err)
	}
	addForms(t, held, m)
	occur := map[string]string{}
	for _, shipped := range []map[string]Kernels{
		Shipped("", module.PTX, module.Cubin, module.Listing),
		Shipped("", classic.PTX, classic.Cubin, classic.Listing),
	} {
		m, err := shipped["sass"].Read()
		if err != nil {
			t.Fatal(err)
		}
		addForms(t, occur, m)
	}
	missing := map[string]string{}
	for form, example := range occur {
		if held[form] == "" {
			missing[form] = example
		}
	}
	for _, form := range unheld {
		if missing[form] == "" {
			t.Errorf("%s: a specimen has it, or nobody: take it out of unheld", form)
		}
		delete(missing, form)
	}
	for _, form := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s, as in %s: no specimen has it", form, missing[form])
	}
	t.Logf("%d forms of operands occur, %d of them in no specimen", len(occur), len(unheld))
}

func addForms(t *testing.T, all map[string]string, m Module) {
	t.Helper()
	for _, k := range m.(*sassModule).kernels {
		for _, c := range k.codes {
			for _, r := range codes[c.opcode] {
				if r.operands != "memory" && r.operands != "control" && !c.fits(r) {
					continue
				}
				for _, form := range c.forms(r) {
					all[form] = c.opcode + " " + strings.Join(c.operands, ", ")
				}
				break
			}
		}
	}
}

var (
	digits = regexp.MustCompile(`0x[0-9a-f]+|\d+`)
	signs  = regexp.MustCompile(`^(!|~|-?\||-)?(.*?)\|?$`)

	// Uniform registers and predicates are read as others are: all are variables.
	uniform = regexp.MustCompile(`\bU([RP])`)
)

// forms are those of an instruction's operands, and of its predicate.
func (c code) forms(r row) (all []string) {
	if c.guard != "" {
		all = append(all, "@"+kindOf(uniform.ReplaceAllString(c.guard, "$1")))
	}
	to, from, computes := strings.Cut(r.operands, "=")
	for i, o := range c.operands {
		o = uniform.ReplaceAllString(o, "$1")
		switch {
		case r.operands == "control":
		case !computes:
			all = append(
				all,
				r.semantics[:strings.LastIndex(r.semantics, " ")]+" "+digits.ReplaceAllString(
					o, "0",
				),
			)
		case i < len(to):
			all = append(all, "to "+to[i:i+1]+" "+kindOf(o))
		default:
			all = append(all, from[i-len(to):][:1]+" "+kindOf(o))
		}
	}
	return all
}

// kindOf is what an operand is, without its number.
func kindOf(o string) string {
	if isNumber.MatchString(o) {
		return "number"
	}
	if isHex.MatchString(o) {
		return "constant"
	}
	s := signs.FindStringSubmatch(o)
	base := digits.ReplaceAllString(s[2], "")
	if strings.HasPrefix(base, "c[") {
		base = "memory"
	}
	return s[1] + base
}
