package translate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An operation is a row of ptx.txt with one of its types.
type operation struct {
	row
	t, v  string // the types
	count int    // of a vector's elements
}

var operations = func() map[string]operation {
	all := map[string]operation{}
	for _, r := range readTable("ptx.txt", true) {
		for types := range strings.FieldsSeq(r.types) {
			o, opcode := operation{row: r, count: 1}, r.opcode
			if types != "-" {
				opcode += "." + types
				o.t, o.v, _ = strings.Cut(types, ".")
				if o.t[0] == 'v' {
					o.count, o.t = int(o.t[1]-'0'), o.v
				}
			}
			all[opcode] = o
		}
	}
	return all
}()

// cpp are the types in C++; registers have those of PTX.
var cpp = map[string]string{
	"pred": "bool", "f32": "float", "f64": "double", "s8": "int8_t", "u8": "uint8_t",
	"b8":  "uint8_t",
	"s16": "int16_t", "u16": "uint16_t", "b16": "uint16_t", "s32": "int32_t", "u32": "uint32_t",
	"b32": "uint32_t",
	"s64": "int64_t", "u64": "uint64_t", "b64": "uint64_t",
}

// size is how many bytes a type has.
func size(t string) int {
	if t == "pred" {
		return 1
	}
	n, _ := strconv.Atoi(t[1:])
	return n / 8
}

// statement is one of PTX, a brace, or a label with its colon.
type statement struct {
	line int
	text string
}

type ptxFunction struct {
	name       string
	kernel     bool
	parameters []string // as declared; what is returned first
	body       []statement
}

type ptxModule struct {
	functions map[string]*ptxFunction
	names     []string // of kernels
	variables strings.Builder
	shared    []string // names of the block's shared memory
}

// PTX reads a module.
func PTX(text string) (Module, error) {
	m := &ptxModule{functions: map[string]*ptxFunction{}}
	var body *ptxFunction
	depth := 0
	for _, s := range statements(text) {
		switch {
		case body == nil:
			f, err := m.declaration(s)
			if err != nil {
				return nil, err
			}
			if f != nil {
				m.functions[f.name], body, depth = f, f, 0
			}
			continue
		case s.text == "{":
			depth++
		case s.text == "}":
			if depth--; depth < 0 {
				body = nil
				continue
			}
		}
		body.body = append(body.body, s)
	}
	switch {
	case body != nil:
		return nil, fmt.Errorf("the PTX ends within %s", body.name)
	case len(m.names) == 0:
		return nil, errors.New("the PTX has no kernel")
	}
	return m, nil
}

var (
	comment  = regexp.MustCompile(`//[^\n]*`)
	ptxHead  = regexp.MustCompile(`^(\.visible \.entry|\.func)\s*(\(.*?\))?\s*([\w$]+)\s*\((.*)\)`)
	ptxArray = regexp.MustCompile(
		`^(?:\.visible )?\.global \.align \d+ \.b8 (\w+)\[(\d+)\](?: = \{(.*)\})?$`,
	)
	ptxShared = regexp.MustCompile(`^\.extern \.shared \.align \d+ \.b8 (\w+)\[\]$`)
	ptxLabel  = regexp.MustCompile(`^\s*\$?\w+:`)
	spaces    = regexp.MustCompile(`\s+`)
)

// statements cuts a text: at semicolons, at labels, and at braces that are no operands.
func statements(text string) (all []statement) {
	text = comment.ReplaceAllString(text, "")
	line, from, start := 1, 0, 0 // start is the line of the statement's first word
	add := func(to int) {
		if t := strings.TrimSpace(spaces.ReplaceAllString(text[from:to], " ")); t != "" {
			all = append(all, statement{start, t})
		}
		from, start = to+1, 0
	}
	for i, c := range text {
		if c == '\n' {
			line++
		} else if start == 0 && c > ' ' {
			start = line
		}
		switch {
		case c == ';':
			add(i)
		case c == ':' && ptxLabel.MatchString(text[from:i+1]):
			add(i)
			all[len(all)-1].text += ":"
		case c == '\n' && strings.HasPrefix(strings.TrimSpace(text[from:i]), ".version"),
			c == '\n' && strings.HasPrefix(strings.TrimSpace(text[from:i]), ".target"),
			c == '\n' && strings.HasPrefix(strings.TrimSpace(text[from:i]), ".address_size"):
			from, start = i, 0
		case c == '{' || c == '}':
			before := strings.TrimSpace(text[from:i])
			if before == "" || strings.HasPrefix(before, ".func") ||
				strings.HasPrefix(before, ".visible .entry") {
				add(i)
				if before == "" {
					all = append(all, statement{line, string(c)})
				} else {
					all[len(all)-1].text += " {"
				}
			}
		}
	}
	add(len(text))
	return all
}

// declaration reads what stands outside of functions, and returns a function whose body
// follows.
func (m *ptxModule) declaration(s statement) (*ptxFunction, error) {
	if a := ptxArray.FindStringSubmatch(s.text); a != nil {
		n, _ := strconv.Atoi(a[2])
		data := make([]byte, n)
		for i, x := range split(a[3]) {
			v, err := strconv.ParseUint(x, 10, 8)
			if err != nil || i >= n {
				return nil, fmt.Errorf("line %d of the PTX: %s: no %d bytes", s.line, a[1], n)
			}
			data[i] = byte(v)
		}
		m.variables.WriteString(variable(a[1], data))
		return nil, nil
	}
	if a := ptxShared.FindStringSubmatch(s.text); a != nil {
		m.shared = append(m.shared, a[1])
		return nil, nil
	}
	h := ptxHead.FindStringSubmatch(s.text)
	if h == nil {
		return nil, fmt.Errorf("line %d of the PTX: not known: %s", s.line, s.text)
	}
	if !strings.HasSuffix(s.text, "{") {
		return nil, nil // a prototype
	}
	f := &ptxFunction{name: h[3], kernel: h[1] != ".func"}
	f.parameters = append(split(strings.Trim(h[2], "()")), split(h[4])...)
	if f.kernel {
		m.names = append(m.names, f.name)
	}
	return f, nil
}

func (m *ptxModule) Kernels() []string { return m.names }
func (m *ptxModule) Variables() string { return m.variables.String() }

// Kernel is a kernel with the functions that it calls, which come first.
func (m *ptxModule) Kernel(name string) (string, error) {
	if !slices.Contains(m.names, name) {
		return "", fmt.Errorf("the PTX has no kernel %s", name)
	}
	var heads, bodies strings.Builder
	heads.WriteString("#include \"machine.h\"\nusing namespace machine;\n")
	wanted := []string{name}
	for i := 0; i < len(wanted); i++ {
		f := m.functions[wanted[i]]
		if f == nil {
			return "", fmt.Errorf("the PTX has no function %s", wanted[i])
		}
		w := ptxWriter{
			module:    m,
			kernel:    name,
			function:  f,
			registers: map[string]string{},
			places:    map[string]place{},
		}
		if err := w.write(); err != nil {
			return "", fmt.Errorf("%s, %w", f.name, err)
		}
		if !f.kernel {
			heads.WriteString(w.head + ";\n")
		}
		bodies.WriteString(w.head + " {\n" + w.out.String() + "}\n")
		for _, called := range w.calls {
			if !slices.Contains(wanted, called) {
				wanted = append(wanted, called)
			}
		}
	}
	return heads.String() + bodies.String(), nil
}

// A place is memory with a name: a parameter, which is an array in C++, or the frame.
type place struct {
	address string
	bytes   int
}

// A ptxWriter writes a function.
type ptxWriter struct {
	module    *ptxModule
	kernel    string
	function  *ptxFunction
	registers map[string]string // types
	places    map[string]place
	frame     int
	calls     []string
	head      string
	out       strings.Builder
}

func (w *ptxWriter) write() error {
	f := w.function
	if f.kernel {
		w.head = "extern \"C\" void " + f.name + "(const void *argument)"
		w.out.WriteString("Thread t(argument);\n")
	}
	var arguments []string
	for _, p := range f.parameters {
		name, bytes, err := parameter(p)
		if err != nil {
			return err
		}
		w.places[name] = place{name, bytes}
		if f.kernel {
			w.places[name] = place{"(uint64_t)t.argument", 0} // its size the launch knows
		}
		arguments = append(arguments, ", unsigned char *"+name)
	}
	if !f.kernel {
		w.head = "static __attribute__((noinline)) void " + f.name + "(Thread &t" + strings.Join(
			arguments, "",
		) + ")"
	}
	for _, s := range f.body {
		text, err := w.statement(s)
		if err != nil {
			return fmt.Errorf("line %d of the PTX: %s: %w", s.line, s.text, err)
		}
		w.out.WriteString(text + "\n")
	}
	return nil
}

var (
	ptxParameter   = regexp.MustCompile(`^\.param (?:\.align \d+ )?\.(\w+) (\w+)(?:\[(\d+)\])?$`)
	ptxLocal       = regexp.MustCompile(`^\.local \.align \d+ \.b8 (\w+)\[(\d+)\]$`)
	ptxRegisters   = regexp.MustCompile(`^(%\w+)(?:<(\d+)>)?$`)
	ptxInstruction = regexp.MustCompile(`^(?:@(!?)(%\w+) )?([\w.:]+) ?(.*)$`)
	ptxAddress     = regexp.MustCompile(`^\[([%\w$.]+)(?:\+(-?\d+))?\]$`)
	ptxCall        = regexp.MustCompile(`^(?:\((\w+)\), )?([\w$]+)(?:, \((.*)\))?$`)
)

// parameter reads a declaration.
func parameter(text string) (name string, bytes int, err error) {
	p := ptxParameter.FindStringSubmatch(text)
	if p == nil {
		return "", 0, fmt.Errorf("no parameter: %s", text)
	}
	n := 1
	if p[3] != "" {
		n, _ = strconv.Atoi(p[3])
	}
	return p[2], n * size(p[1]), nil
}

// identifier is a name of PTX in C++; that of a register is no other name.
func identifier(name string) string {
	if strings.HasPrefix(name, "%") {
		return name[1:] + "_"
	}
	return strings.Trim(name, "$:")
}

// statement is one in C++.
func (w *ptxWriter) statement(s statement) (string, error) {
	word, rest, _ := strings.Cut(s.text, " ")
	switch {
	case s.text == "{" || s.text == "}":
		return s.text, nil
	case strings.HasSuffix(s.text, ":"):
		return identifier(s.text) + ":;", nil
	case word == ".reg":
		return w.declare(rest)
	case word == ".param":
		name, bytes, err := parameter(s.text)
		w.places[name] = place{name, bytes}
		return fmt.Sprintf("alignas(16) unsigned char %s[%d];", name, bytes), err
	case word == ".local":
		p := ptxLocal.FindStringSubmatch(s.text)
		if p == nil || w.frame > 0 {
			return "", fmt.Errorf("no frame")
		}
		w.frame, _ = strconv.Atoi(p[2])
		w.places[p[1]] = place{"(uint64_t)frame.start", 0}
		return fmt.Sprintf("Frame frame(t, %d, %d);", w.frame, s.line), nil
	case word == ".pragma":
		return "", nil
	}
	i := ptxInstruction.FindStringSubmatch(s.text)
	if i == nil {
		return "", fmt.Errorf("no instruction")
	}
	o, ok := operations[i[3]]
	if !ok {
		return "", fmt.Errorf("opcode %s is not in ptx.txt", i[3])
	}
	text, err := w.instruction(o, i[4], s.line)
	if i[2] != "" {
		text = "if (" + i[1] + identifier(i[2]) + ") " + text
	}
	return text, err
}

// declare declares registers.
func (w *ptxWriter) declare(rest string) (string, error) {
	t, names, _ := strings.Cut(strings.TrimPrefix(rest, "."), " ")
	var all []string
	for _, name := range split(names) {
		r := ptxRegisters.FindStringSubmatch(name)
		if r == nil && ptxRegisters.MatchString("%"+name) {
			r = []string{"", name, ""}
		}
		if r == nil || cpp[t] == "" {
			return "", fmt.Errorf("no register")
		}
		if r[2] == "" {
			w.registers[r[1]], all = t, append(all, identifier(r[1]))
			continue
		}
		n, _ := strconv.Atoi(r[2])
		for i := range n {
			name := r[1] + strconv.Itoa(i)
			w.registers[name], all = t, append(all, identifier(name))
		}
	}
	return cpp[t] + " " + strings.Join(all, ", ") + ";", nil
}

// instruction is an operation in C++.
func (w *ptxWriter) instruction(o operation, operands string, line int) (string, error) {
	args := split(operands)
	switch o.operands {
	case "memory":
		return w.memory(o, args, line)
	case "control":
		return w.control(o, operands, line)
	case "halves":
		return w.halves(o, args)
	}
	to, from, _ := strings.Cut(o.operands, "=")
	if len(args) != 1+len(from) {
		return "", fmt.Errorf("%d operands, want %d", len(args), 1+len(from))
	}
	var b strings.Builder
	b.WriteString("{ ")
	for i, kind := range from {
		t := o.kind(kind)
		if err := w.takes(o, kind, args[1+i]); err != nil {
			return "", err
		}
		value, err := w.value(args[1+i], t)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "const %s %c = %s; ", cpp[t], "abce"[i], value)
	}
	t := o.kind(rune(to[0]))
	if err := w.takes(o, rune(to[0]), args[0]); err != nil {
		return "", err
	}
	end, err := w.assign(args[0], t, "d")
	semantics := o.filled(map[string]string{"T": cpp[o.t], "at": strconv.Itoa(line)})
	fmt.Fprintf(&b, "%s %s; %s }", cpp[t], semantics, end)
	return b.String(), err
}

// takes refuses an operand of an operation that has no memory and no halves, where ptxas does: a
// register of another size or type, of which a conversion alone may have a wider one, and what mov
// alone reads.
func (w *ptxWriter) takes(o operation, kind rune, text string) error {
	t := o.kind(kind)
	if kind == 'u' {
		t = o.t // such as b32, which takes any register of its size
	}
	have, register := w.registers[text]
	_, place := w.places[text]
	move := strings.HasPrefix(o.opcode, "mov")
	switch {
	case register:
		converts := strings.HasPrefix(o.opcode, "cvt")
		point := (have[0] == 'f') != (t[0] == 'f') && have[0] != 'b' && t[0] != 'b'
		if size(have) < size(t) || size(have) > size(t) && !converts || point {
			return fmt.Errorf("%s is a register of type %s, want one of %s", text, have, t)
		}
	case special[text] != "":
		if !move || t != "u32" {
			return fmt.Errorf("%s is for mov.u32 alone", text)
		}
	case place || slices.Contains(w.module.shared, text):
		if !move || t[0] != 'u' {
			return fmt.Errorf("%s is an address, which is for mov to registers of integers", text)
		}
	case text == "_":
		if t != "pred" {
			return fmt.Errorf("only a predicate may be left out, and this is %s", t)
		}
	case strings.ContainsAny(text, "_oO"):
		return fmt.Errorf("no number or register: %s", text)
	}
	return nil
}

// kind is the type for which a letter in the table stands.
func (o operation) kind(letter rune) string {
	switch letter {
	case 'u':
		return "u" + o.t[1:]
	case 'v':
		return o.v
	case 'w':
		return fmt.Sprintf("%c%d", o.t[0], 16*size(o.t))
	case 'r':
		return "u32"
	case 'p':
		return "pred"
	}
	return o.t
}

var special = map[string]string{"%tid.x": "t.tid", "%ntid.x": "t.ntid", "%ctaid.x": "t.ctaid"}

// value is an operand as an expression of a type.
func (w *ptxWriter) value(text, t string) (string, error) {
	if s, ok := special[text]; ok {
		return s, nil
	}
	if have, ok := w.registers[text]; ok {
		return convert(identifier(text), have, t)
	}
	if p, ok := w.places[text]; ok {
		return "(uint64_t)" + p.address, nil
	}
	if slices.Contains(w.module.shared, text) {
		return "kSharedStart", nil
	}
	lower := strings.ToLower(text)
	switch digits := strings.TrimPrefix(strings.TrimPrefix(lower, "0f"), "0d"); {
	case t == "f32" && strings.HasPrefix(lower, "0f") && len(digits) == 8:
		return "f32(0x" + digits + "u)", nil
	case t == "f64" && strings.HasPrefix(lower, "0d") && len(digits) == 16:
		return "f64(0x" + digits + "ull)", nil
	}
	// Of predicates a number is true unless it is 0: ptxas makes 2 and 1 << 32 true.
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && t[0] != 'f' {
		return fmt.Sprintf("(%s)0x%xull", cpp[t], uint64(n)), nil
	}
	return "", fmt.Errorf("no operand of type %s: %s", t, text)
}

// convert makes a value of one type one of another: between numbers with a point and
// integers the bits, of integers what the other has room for.
func convert(value, from, to string) (string, error) {
	switch {
	case from == to || cpp[from] == cpp[to]:
		return value, nil
	case (from == "pred") != (to == "pred"),
		(from[0] == 'f' || to[0] == 'f') && size(from) != size(to):
		return "", fmt.Errorf("%s is no %s", value, to)
	case from[0] == 'f' || to[0] == 'f':
		return "bits<" + cpp[to] + ">(" + value + ")", nil
	}
	return "(" + cpp[to] + ")" + value, nil
}

// assign gives a value to a register.
func (w *ptxWriter) assign(register, t, value string) (string, error) {
	if register == "_" {
		return "", nil
	}
	have, ok := w.registers[register]
	if !ok {
		return "", fmt.Errorf("no register %s", register)
	}
	text, err := convert(value, t, have)
	return identifier(register) + " = " + text + ";", err
}

// halves is a move, of which one side may be two registers of half the size.
func (w *ptxWriter) halves(o operation, args []string) (string, error) {
	if len(args) != 2 {
		return "", fmt.Errorf("%d operands, want 2", len(args))
	}
	half := fmt.Sprintf("u%d", 4*size(o.t))
	to, from := split(strings.Trim(args[0], "{}")), split(strings.Trim(args[1], "{}"))
	var d string
	for i, text := range from {
		t := o.t
		if len(from) > 1 {
			t = half
		}
		value, err := w.value(text, t)
		if err != nil {
			return "", err
		}
		d += fmt.Sprintf(" | (%s)%s << %d", cpp[o.t], value, i*8*size(half))
	}
	text := "{ const " + cpp[o.t] + " d = " + strings.TrimPrefix(d, " | ") + ";"
	for i, register := range to {
		t, value := o.t, "d"
		if len(to) > 1 {
			t, value = half, fmt.Sprintf("(%s)(d >> %d)", cpp[half], i*8*size(half))
		}
		end, err := w.assign(register, t, value)
		if err != nil {
			return "", err
		}
		text += " " + end
	}
	return text + " }", nil
}

// memory is a load or a store.
func (w *ptxWriter) memory(o operation, args []string, line int) (string, error) {
	if len(args) != 2 {
		return "", fmt.Errorf("%d operands, want 2", len(args))
	}
	kind, space, _ := strings.Cut(o.opcode, ".")
	space, _, _ = strings.Cut(space, ".") // without nc
	registers, address := args[0], args[1]
	if kind == "st" {
		registers, address = args[1], args[0]
	}
	all := split(strings.Trim(registers, "{}"))
	a := ptxAddress.FindStringSubmatch(address)
	if a == nil || len(all) != o.count {
		return "", fmt.Errorf("no address, or not %d registers", o.count)
	}
	offset, _ := strconv.Atoi("0" + a[2])
	if strings.HasPrefix(a[2], "-") {
		offset, _ = strconv.Atoi(a[2])
	}
	bytes := o.count * size(o.t)
	where := ""
	if p, ok := w.places[a[1]]; ok && p.bytes > 0 { // an array of our own
		if offset < 0 || offset+bytes > p.bytes {
			return "", fmt.Errorf("beyond its %d bytes", p.bytes)
		}
		where = fmt.Sprintf("%s + %d", p.address, offset)
	} else {
		base, err := w.value(a[1], "u64")
		if err != nil {
			return "", err
		}
		if space == "" {
			space = "generic"
		} else if space == "param" {
			space = "global" // the kernel's argument
		}
		where = fmt.Sprintf("t.%s_%s(%s + %d, %d, %d%s)",
			map[string]string{"ld": "read", "st": "write"}[kind], space, base, offset,
			bytes, line, mark(w.kernel, w.function.name))
	}
	text := "{ const uint8_t *q = " + where + ";"
	if kind == "st" {
		text = "{ uint8_t *q = " + where + ";"
	}
	for i, r := range all {
		if kind == "ld" {
			end, err := w.assign(r, o.t, fmt.Sprintf("load<%s>(q + %d)", cpp[o.t], i*size(o.t)))
			if err != nil {
				return "", err
			}
			text += " " + end
			continue
		}
		value, err := w.value(r, o.t)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf(" store<%s>(q + %d, %s);", cpp[o.t], i*size(o.t), value)
	}
	return text + " }", nil
}

// control is an instruction that reads no registers.
func (w *ptxWriter) control(o operation, operands string, line int) (string, error) {
	switch o.opcode {
	case "bar.sync":
		if operands != "0" {
			return "", fmt.Errorf("only barrier 0 is known")
		}
	case "call.uni":
		c := ptxCall.FindStringSubmatch(operands)
		if c == nil {
			return "", fmt.Errorf("no call")
		}
		w.calls = append(w.calls, c[2])
		arguments := split(c[3])
		if c[1] != "" {
			arguments = append([]string{c[1]}, arguments...)
		}
		return c[2] + "(" + strings.Join(append([]string{"t"}, arguments...), ", ") + ");", nil
	}
	return o.filled(map[string]string{
		"a": identifier(operands), "at": strconv.Itoa(line),
	}) + ";", nil
}
