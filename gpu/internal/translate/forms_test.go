package translate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/module/classic"
	"lockstep/internal/want"
)

// TestForms: what a row computes and how its operands are read are apart in the translation. The
// rows are held by TestSemantics. Here every form of an operand that is shipped, by its kind, its
// signs and what it is, occurs in a specimen, whose result shows what is read.
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
	for _, form := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s, as in %s: no specimen has it", form, missing[form])
	}
	t.Logf("%d forms of operands occur", len(occur))
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

// A misreading is an instruction of a specimen with one operand read wrongly.
type misreading struct {
	form, kernel string
	instruction  int
	text         string // in C++
	number       int
}

var lastOffset = regexp.MustCompile(`\+[^+\]]*\]`)

// misread is the text of an operand that is read wrongly: without its sign, its offset, its
// register or its value. Of what nobody reads there is none.
func misread(o string) string {
	plain := strings.TrimLeft(o, "!~-|U")
	switch {
	case isPredicate.MatchString(o):
		if without, ok := strings.CutPrefix(o, "!"); ok {
			return without
		}
		return "!" + o
	case isMemory.MatchString(o) && lastOffset.MatchString(o):
		return lastOffset.ReplaceAllString(o, "]")
	case isMemory.MatchString(o):
		return strings.TrimSuffix(o, "]") + "+0x10]"
	case strings.HasPrefix(o, "|"):
		return strings.Trim(o, "|")
	case isHex.MatchString(o):
		n, _ := strconv.ParseInt(o, 0, 64)
		return fmt.Sprintf("0x%x", n^1)
	case strings.ContainsRune("~-", rune(o[0])):
		return o[1:]
	case plain == "RZ" || isConstant.MatchString(o):
		return "0x1"
	case o == "SRZ" || o == "SR_CgaCtaId": // both are 0
		return "SR_TID.X"
	case strings.HasPrefix(o, "SR"):
		return "SRZ"
	}
	return "RZ"
}

// misreadings are those of an instruction, by form.
func (k *sassKernel) misreadings(i int, r row) map[string]string {
	all := map[string]string{}
	c := k.codes[i]
	if r.operands == "control" {
		return nil
	}
	add := func(form string, wrong code) {
		if text, err := k.instruction(i, wrong); err == nil {
			all[form] = text
		}
	}
	forms := c.forms(r)
	if c.guard != "" {
		wrong := c
		wrong.guard = misread(c.guard)
		add(forms[0], wrong)
		forms = forms[1:]
	}
	for j, form := range forms {
		wrong := c
		wrong.operands = slices.Clone(c.operands)
		switch o := c.operands[j]; {
		case strings.HasPrefix(form, "to p"):
			wrong.operands[j] = "PT"
		case strings.HasPrefix(form, "to "):
			wrong.operands[j] = "RZ"
		case isNumber.MatchString(o):
			wrong.word ^= 1 << 22
		case form == "f RZ":
			wrong.operands[j] = "0x3f800000" // of 1 as bits nothing is left where it is added
		default:
			wrong.operands[j] = misread(o)
		}
		add(form, wrong)
	}
	return all
}

// silent are forms that cannot be misread, and why.
var silent = map[string]string{
	"to i RZ": "nothing is written", "to u RZ": "nothing is written", "to p PT": "nothing is " +
		"written",
	"to - PT": "nothing is written", "! !PT": "anything else is refused", "0 -RZ": "is no number",
	"0 RZ": "is no number", "k constant": "",
}

// loops tells whether a kernel goes back: its counters are left as they are.
func (k *sassKernel) loops() bool {
	for i, c := range k.codes {
		if unmodified(c.opcode) != "BRA" {
			continue
		}
		label := strings.TrimSuffix(strings.TrimPrefix(c.operands[len(c.operands)-1], "`("), ")")
		if at, ok := k.labels[label]; ok && at < i {
			return true
		}
	}
	return false
}

// misreads has the C++ of kernels in which the kernel's argument chooses a misreading.
type misreads struct {
	Module
	of map[string]map[int][]misreading // by kernel and instruction
}

func (m misreads) Kernel(name string) (string, error) {
	text, err := m.Module.Kernel(name)
	if err != nil {
		return "", err
	}
	k := m.Module.(*sassModule).kernels[name]
	for i, all := range m.of[name] {
		right, err := k.instruction(i, k.codes[i])
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, wrong := range all {
			fmt.Fprintf(
				&b, "if (load<uint32_t>(t.argument + 16) == %d) { %s } else ", wrong.number,
				wrong.text,
			)
		}
		text = strings.Replace(text, "\n"+right+"\n", "\n"+b.String()+"{ "+right+" }\n", 1)
	}
	return text, nil
}

// TestMisread: with -plant each form of operand is read wrongly, in one instruction at a time,
// and a specimen's result must show it.
func TestMisread(t *testing.T) {
	if !*plant {
		t.Skip("plants faults: `make semantics-faults`")
	}
	want.Compiler.Need(t)
	m, err := MachineCode([]byte(specimenFile(t, "cubin")), specimenFile(t, "sass"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 12                           // of a form
	few := map[bool]int{false: 2, true: most} // of a kernel; a loop's first copies are not executed
	byForm, of := map[string][]misreading{}, map[string]map[int][]misreading{}
	byName := map[string]specimen{}
	var used []specimen
	number := 0
	for _, s := range known(m, specimens()) {
		k := m.(*sassModule).kernels[s.name]
		found := map[string]int{}
		for i, c := range k.codes {
			for _, r := range codes[c.opcode] {
				if r.operands != "memory" && (k.loops() || !c.fits(r)) {
					continue
				}
				for form, text := range k.misreadings(i, r) {
					if found[form]++; found[form] > few[k.loops()] || len(byForm[form]) >= most {
						continue
					}
					number++
					wrong := misreading{form, s.name, i, text, number}
					byForm[form] = append(byForm[form], wrong)
					if of[s.name] == nil {
						of[s.name] = map[int][]misreading{}
						byName[s.name], used = s, append(used, s)
					}
					of[s.name][i] = append(of[s.name][i], wrong)
				}
				break
			}
		}
	}
	l := newLaboratory(t, "sass", misreads{m, of}, used)
	for _, form := range slices.Sorted(maps.Keys(byForm)) {
		shown := slices.ContainsFunc(byForm[form], func(wrong misreading) bool {
			return l.hold(t, byName[wrong.kernel], wrong.number) != ""
		})
		if !shown && silent[form] == "" {
			t.Errorf("%s: nothing shows that it is misread, as in %v", form, byForm[form])
		}
	}
	for _, s := range used {
		if d := l.hold(t, s, 0); d != "" {
			t.Errorf("%s: %s", s.name, d)
		}
	}
	t.Logf("%d forms, %d misreadings", len(byForm), number)
}
