package translate

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// codes are the rows of sass.txt by opcode: several where operands differ.
var codes = func() map[string][]row {
	all := map[string][]row{}
	for _, r := range readTable("sass.txt", false) {
		for opcode := range strings.FieldsSeq(r.opcode) {
			all[opcode] = append(all[opcode], r)
		}
	}
	return all
}()

const instructionBytes = 16

var (
	sassSection = regexp.MustCompile(`^\s*\.section\s+"?([^\s",]+)`)
	sassLabel   = regexp.MustCompile(`^([.$][^\s:]+):`)
	sassLine    = regexp.MustCompile(`^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;`)
	sassNoise   = regexp.MustCompile(`\.reuse|\(\*.*?\*\)`)
)

// Listing is what is kept of the text that nvdisasm writes of a cubin: kernels, labels and
// instructions, one a line, whose addresses follow one another.
func Listing(cubin []byte, nvdisasm string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "sha256 %x\n", sha256.Sum256(cubin))
	kernel, next := "", uint64(0)
	for line := range strings.Lines(nvdisasm) {
		if m := sassSection.FindStringSubmatch(line); m != nil {
			kernel, next = "", 0
			if name, ok := strings.CutPrefix(m[1], ".text."); ok {
				kernel = name
				fmt.Fprintf(&b, "kernel %s\n", name)
			}
		} else if m := sassLabel.FindStringSubmatch(line); m != nil && kernel != "" {
			fmt.Fprintf(&b, "%s:\n", m[1])
		} else if m := sassLine.FindStringSubmatch(line); m != nil && kernel != "" {
			if at, err := strconv.ParseUint(m[1], 16, 64); err != nil || at != next {
				return "", fmt.Errorf("nvdisasm: %s: not at %x: %s", kernel, next, line)
			}
			next += instructionBytes
			text := spaces.ReplaceAllString(sassNoise.ReplaceAllString(m[2], ""), " ")
			fmt.Fprintln(&b, strings.TrimSpace(text))
		}
	}
	return b.String(), nil
}

// A code is an instruction of machine code.
type code struct {
	guard    string // a predicate, with its ! if it is negated
	opcode   string
	operands []string
	word     uint32 // the constant in its encoding
	stall    int    // cycles until the next one may be issued
	function string // in which it is
}

type sassKernel struct {
	codes  []code
	labels map[string]int // the instruction
	table  []byte         // constant bank 2
	stack  int            // bytes
}

type sassModule struct {
	kernels map[string]*sassKernel
	cubin   *elf.File
	counted bool // see Counted
}

var sassCode = regexp.MustCompile(`^(?:@(!?U?P\w+) )?([A-Z][\w.]*) ?(.*)$`)

// MachineCode reads a cubin for sm_90 with its listing.
func MachineCode(cubin []byte, listing string) (Module, error) {
	sum := sha256.Sum256(cubin)
	head, rest, _ := strings.Cut(listing, "\n")
	if head != "sha256 "+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("the listing is of another cubin: run `make kernels`")
	}
	file, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	m := &sassModule{kernels: map[string]*sassKernel{}, cubin: file}
	var k *sassKernel
	var words []byte
	function := ""
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "kernel "); ok {
			k = &sassKernel{labels: map[string]int{}}
			m.kernels[name], function = k, name
			if words, err = m.section(".text." + name); err != nil {
				return nil, err
			}
			k.table, _ = m.section(".nv.constant2." + name) // or none
			continue
		}
		if label, ok := strings.CutSuffix(line, ":"); ok && k != nil {
			k.labels[label] = len(k.codes)
			if label[0] == '$' {
				function = label
			}
			continue
		}
		i := sassCode.FindStringSubmatch(line)
		at := 0
		if k != nil {
			at = len(k.codes) * instructionBytes
		}
		if i == nil || at+instructionBytes > len(words) {
			return nil, fmt.Errorf("listing: no instruction: %s", line)
		}
		low, high := binary.LittleEndian.Uint64(words[at:]),
			binary.LittleEndian.Uint64(words[at+8:])
		k.codes = append(
			k.codes,
			code{guard: i[1], opcode: i[2], operands: split(i[3]), word: uint32(low >> 32),
				stall: int(high >> 41 & 15), function: function},
		)
	}
	for name, k := range m.kernels {
		words, _ := m.section(".text." + name)
		if has, want := len(k.codes), len(words)/instructionBytes; has != want {
			return nil, fmt.Errorf("listing: %d of %d instructions of %s", has, want, name)
		}
	}
	return m, m.stacks()
}

// section is the data of one of the cubin's sections.
func (m *sassModule) section(name string) ([]byte, error) {
	s := m.cubin.Section(name)
	if s == nil {
		return nil, fmt.Errorf("the cubin has no section %s", name)
	}
	return s.Data()
}

// stacks reads how much local memory each kernel needs, which .nv.info says under 0x12 with
// the kernel's symbol.
func (m *sassModule) stacks() error {
	info, err := m.section(".nv.info")
	if err != nil {
		return err
	}
	symbols, err := m.cubin.Symbols()
	if err != nil {
		return fmt.Errorf("cubin: %w", err)
	}
	for len(info) >= 4 {
		format, attribute, n := info[0], info[1], int(binary.LittleEndian.Uint16(info[2:]))
		info = info[4:]
		if format != 4 { // the value is in the head
			continue
		}
		if n > len(info) {
			return fmt.Errorf("the cubin's .nv.info ends in the middle")
		}
		if attribute == 0x12 && n == 8 {
			i := int(binary.LittleEndian.Uint32(info)) - 1
			if i >= 0 && i < len(symbols) && m.kernels[symbols[i].Name] != nil {
				m.kernels[symbols[i].Name].stack = int(binary.LittleEndian.Uint32(info[4:]))
			}
		}
		info = info[n:]
	}
	return nil
}

func (m *sassModule) Kernels() []string { return slices.Sorted(maps.Keys(m.kernels)) }

// Variables are the module's global ones that have values.
func (m *sassModule) Variables() string {
	data, err := m.section(".nv.global.init")
	if err != nil {
		return ""
	}
	symbols, _ := m.cubin.Symbols()
	var b strings.Builder
	for _, s := range symbols {
		if int(s.Section) < len(m.cubin.Sections) &&
			m.cubin.Sections[s.Section].Name == ".nv.global.init" &&
			elf.ST_TYPE(s.Info) == elf.STT_OBJECT &&
			s.Value+s.Size <= uint64(len(data)) {
			b.WriteString(variable(s.Name, data[s.Value:s.Value+s.Size]))
		}
	}
	return b.String()
}

// Kernel is a kernel in C++: one function, whose registers are variables.
func (m *sassModule) Kernel(name string) (string, error) {
	k := m.kernels[name]
	if k == nil {
		return "", fmt.Errorf("the cubin has no kernel %s", name)
	}
	targets, err := k.targets()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	labels := map[int][]string{}
	for _, label := range slices.Sorted(maps.Keys(k.labels)) { // a text is compiled once
		i := k.labels[label]
		labels[i] = append(labels[i], label)
	}
	var body strings.Builder
	var blocks []int
	if m.counted {
		blocks = k.blocks(targets)
	}
	for i, c := range k.codes {
		for _, label := range labels[i] {
			body.WriteString(labelName(label) + ":;\n")
		}
		if targets[i] {
			fmt.Fprintf(&body, "at_%x:;\n", i*instructionBytes)
		}
		if n, ok := slices.BinarySearch(blocks, i); ok {
			fmt.Fprintf(&body, "counted[%d]++;\n", n)
		}
		text, err := k.instruction(i, c)
		if err != nil {
			return "", fmt.Errorf(
				"%s at 0x%04x: %s %s: %w", name, i*instructionBytes, c.opcode,
				strings.Join(c.operands, ", "), err,
			)
		}
		body.WriteString(text + "\n")
	}
	var b strings.Builder
	b.WriteString("#include \"machine.h\"\nusing namespace machine;\n")
	if m.counted {
		b.WriteString(k.counters(blocks))
	}
	fmt.Fprintf(&b, "extern \"C\" void %s(const void *argument) {\n", name)
	fmt.Fprintf(&b, "Thread t(argument);\nt.frame = %d;\nuint32_t where = 0;\n", k.stack)
	if m.counted {
		b.WriteString("uint32_t *const counted = counts[t.tid];\nconst End end{t.ntid};\n")
	}
	b.WriteString(registers(body.String()))
	b.WriteString("static const unsigned char table[] = {")
	for _, x := range k.table {
		fmt.Fprintf(&b, "%d,", x)
	}
	b.WriteString("0};\ngoto start;\ndispatch: switch (where) {\n")
	for _, i := range slices.Sorted(maps.Keys(targets)) {
		fmt.Fprintf(&b, "case 0x%x: goto at_%x;\n", i*instructionBytes, i*instructionBytes)
	}
	b.WriteString(
		"default: t.stop(kCode | where, \"a jump to where no code is known to " +
			"begin\");\n}\nstart:;\n",
	)
	return b.String() + body.String() + "}\n", nil
}

var registerName = regexp.MustCompile(`\b(?:U?R\d+|U?P\d|B\d+)\b`)

// registers declares those that occur.
func registers(body string) string {
	found := map[string]bool{}
	for _, name := range registerName.FindAllString(body, -1) {
		found[name] = true
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch {
		case strings.Contains(name, "P"):
			fmt.Fprintf(&b, "bool %s = false;\n", name)
		case name[0] == 'B':
			fmt.Fprintf(&b, "uint64_t %s = 0;\n", name)
		default:
			fmt.Fprintf(&b, "uint32_t %s = 0xdeadbeefu;\n", name)
		}
	}
	return b.String()
}

// targets are the instructions to which registers may jump: behind calls, and those of
// the tables.
func (k *sassKernel) targets() (map[int]bool, error) {
	all := map[int]bool{}
	for i, c := range k.codes {
		if strings.HasPrefix(c.opcode, "CALL") {
			all[i+1] = true
		}
		if c.opcode == "BRX" {
			for at := 0; at+4 <= len(k.table); at += 4 {
				to := int(binary.LittleEndian.Uint32(k.table[at:]))
				if to%instructionBytes != 0 || to/instructionBytes >= len(k.codes) {
					return nil, fmt.Errorf("constant bank 2 has 0x%x, which is no instruction", to)
				}
				all[to/instructionBytes] = true
			}
		}
	}
	delete(all, len(k.codes))
	return all, nil
}

var notWord = regexp.MustCompile(`\W`)

func labelName(label string) string { return "L" + notWord.ReplaceAllString(label, "_") }

// target is the label that an operand names.
func (k *sassKernel) target(operand string) (string, error) {
	label := strings.TrimSuffix(strings.TrimPrefix(operand, "`("), ")")
	if _, ok := k.labels[label]; !ok {
		return "", fmt.Errorf("no label %s", operand)
	}
	return labelName(label), nil
}

// instruction is one in C++.
func (k *sassKernel) instruction(i int, c code) (string, error) {
	rows := codes[c.opcode]
	if rows == nil {
		return "", fmt.Errorf("the opcode is not in sass.txt")
	}
	at := fmt.Sprintf(
		"kCode | 0x%x%s", i*instructionBytes, mark("", c.function),
	) // the function's name has the kernel's
	guard := ""
	if c.guard != "" {
		g, err := predicate(c.guard)
		if err != nil {
			return "", err
		}
		guard = g
	}
	var text string
	err := fmt.Errorf("its operands are not in sass.txt")
	switch rows[0].operands {
	case "control":
		return k.control(i, c, rows[0], guard, at)
	case "memory":
		text, err = c.memory(rows[0], at)
	default:
		for _, r := range rows {
			if c.fits(r) {
				text, err = c.operation(r, at)
				break
			}
		}
	}
	if guard != "" {
		text = "if (" + guard + ") " + text
	}
	return text, err
}

var (
	isPredicate = regexp.MustCompile(`^!?U?P[0-9T]$`)
	isRegister  = regexp.MustCompile(`^U?R(\d+|Z)$`)
	isConstant  = regexp.MustCompile(`^c\[0x([02])\]\[(.*)\]$`)
	isNumber    = regexp.MustCompile(`^[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|INF|QNAN)$`)
	isHex       = regexp.MustCompile(`^-?0x[0-9a-f]+$`)
	isMemory    = regexp.MustCompile(`^(?:desc\[UR\d+\])?\[(.*)\]$`)
)

// fits tells whether a row is of as many operands, with predicates at the same places.
func (c code) fits(r row) bool {
	kinds := strings.Replace(r.operands, "=", "", 1)
	if len(kinds) != len(c.operands) {
		return false
	}
	for i, o := range c.operands {
		if strings.ContainsRune("p-!", rune(kinds[i])) != isPredicate.MatchString(o) {
			return false
		}
	}
	return true
}

// operation is an instruction that computes.
func (c code) operation(r row, at string) (string, error) {
	to, from, _ := strings.Cut(r.operands, "=")
	var b, end strings.Builder
	b.WriteString("{ ")
	values, predicates := 0, 0
	for i, kind := range from {
		o := c.operands[len(to)+i]
		value, err := c.value(o, kind, at)
		if err != nil {
			return "", err
		}
		switch {
		case kind == 'p':
			fmt.Fprintf(&b, "const bool %c = %s; ", "xyz"[predicates], value)
			predicates++
		case value != "":
			fmt.Fprintf(&b, "%s %c = %s; ", sassTypes[kind], "abce"[values], value)
			values++
		}
	}
	written := 0
	for i, kind := range to {
		o := c.operands[i]
		switch kind {
		case '-':
			if strings.TrimPrefix(o, "U") != "PT" {
				return "", fmt.Errorf("%s is written, which sass.txt does not know", o)
			}
		case 'p':
			name := "pq"[written]
			written++
			fmt.Fprintf(&b, "bool %c; ", name)
			if strings.TrimPrefix(o, "U") != "PT" {
				fmt.Fprintf(&end, " %s = %c;", o, name)
			}
		default:
			fmt.Fprintf(&b, "%s d; ", sassTypes[kind])
			end.WriteString(assigned(o, kind))
		}
	}
	return b.String() + r.semantics + ";" + end.String() + " }", nil
}

var sassTypes = map[rune]string{
	'i': "uint32_t", 'u': "uint32_t", 's': "int32_t", 'l': "uint64_t", 'c': "uint64_t",
	'f': "float", 'd': "double", 'h': "uint32_t", 'k': "uint32_t", 't': "uint64_t", 'w': "uint32_t",
}

// assigned writes d to a register, or to two.
func assigned(register string, kind rune) string {
	if strings.HasSuffix(register, "Z") {
		return ""
	}
	switch kind {
	case 'f':
		return " " + register + " = bits<uint32_t>(d);"
	case 'd':
		return fmt.Sprintf(
			" %s = (uint32_t)bits<uint64_t>(d); %s = bits<uint64_t>(d) >> 32;", register,
			next(register, 1),
		)
	case 'l':
		return fmt.Sprintf(" %s = (uint32_t)d; %s = d >> 32;", register, next(register, 1))
	}
	return " " + register + " = d;"
}

// next is the register that is n behind another.
func next(register string, n int) string {
	digits := strings.TrimLeft(register, "UR")
	i, err := strconv.Atoi(digits)
	if err != nil {
		return register // RZ
	}
	return strings.TrimSuffix(register, digits) + strconv.Itoa(i+n)
}

func predicate(o string) (string, error) {
	if !isPredicate.MatchString(o) {
		return "", fmt.Errorf("no predicate: %s", o)
	}
	if name := strings.TrimPrefix(o, "!"); strings.HasSuffix(name, "T") {
		return strconv.FormatBool(name == o), nil
	}
	return o, nil
}

// value is an operand in C++; of kinds that only have to be there it is empty.
func (c code) value(o string, kind rune, at string) (string, error) {
	switch kind {
	case 'p':
		return predicate(o)
	case '!':
		if strings.Replace(o, "U", "", 1) != "!PT" {
			return "", fmt.Errorf("%s is read, which sass.txt does not know", o)
		}
		return "", nil
	case '0':
		if strings.TrimPrefix(o, "-") != "RZ" {
			return "", fmt.Errorf("%s, where sass.txt knows 0 alone", o)
		}
		return "", nil
	case 't':
		if s, ok := sassSpecial[o]; ok {
			return s, nil
		}
		return "", fmt.Errorf("special register %s is not known", o)
	case 'w':
		return fmt.Sprintf("0x%xu", c.word), nil
	case 'f', 'd', 'h':
		return c.number(o, kind, at)
	case 'k':
		if !isHex.MatchString(o) {
			return "", fmt.Errorf("%s is no constant", o)
		}
	}
	if plain, ok := strings.CutPrefix(o, "~"); ok {
		value, err := c.bits(plain, 1, at)
		return "(uint32_t)~" + value, err
	}
	if plain, ok := strings.CutPrefix(o, "-"); ok && !isHex.MatchString(o) {
		value, err := c.bits(plain, 1, at)
		if kind == 'c' {
			return "(uint64_t)(uint32_t)~" + value + " + 1", err
		}
		if strings.ContainsRune("lus", kind) {
			return "", fmt.Errorf("%s is negated, which sass.txt does not know there", plain)
		}
		return "0u - " + value, err
	}
	if kind == 'l' {
		return c.bits(o, 2, at)
	}
	return c.bits(o, 1, at)
}

var sassSpecial = map[string]string{
	"SR_TID.X":    "t.tid",
	"SR_CTAID.X":  "t.ctaid",
	"SR_SWINHI":   "kSharedWindow >> 32",
	"SR_CgaCtaId": "0",
	"SRZ":         "0",
}

// number is an operand with a point, or the upper half of one.
func (c code) number(o string, kind rune, at string) (string, error) {
	switch {
	case isNumber.MatchString(o): // printed rounded: what is meant is in the encoding
		return fmt.Sprintf(
			map[rune]string{'f': "f32(0x%xu)", 'd': "f64(0x%xull << 32)", 'h': "0x%xu"}[kind],
			c.word,
		), nil
	case kind == 'h':
		return c.bits(o, 1, at)
	case strings.HasPrefix(o, "-"):
		value, err := c.number(o[1:], kind, at)
		return "negated(" + value + ")", err
	case strings.HasPrefix(o, "|"):
		value, err := c.number(strings.Trim(o, "|"), kind, at)
		return "absolute(" + value + ")", err
	}
	if kind == 'f' {
		value, err := c.bits(o, 1, at)
		return "f32(" + value + ")", err
	}
	value, err := c.bits(o, 2, at)
	return "f64(" + value + ")", err
}

// bits are those of one word or two: registers, a constant, or memory that is constant.
func (c code) bits(o string, words int, at string) (string, error) {
	if m := isConstant.FindStringSubmatch(o); m != nil {
		offset, err := c.sum(m[2], at)
		if err != nil {
			return "", err
		}
		get := "t.constant0(%s, " + at + ")"
		if m[1] == "2" {
			get = "t.constant2(table, sizeof table, %s, " + at + ")"
		}
		if words == 1 {
			return fmt.Sprintf(get, offset), nil
		}
		return fmt.Sprintf("pair("+get+", "+get+")", offset, offset+" + 4"), nil
	}
	switch {
	case strings.HasSuffix(o, "RZ"):
		return "0u", nil
	case isRegister.MatchString(o) && words == 1:
		return o, nil
	case isRegister.MatchString(o):
		return "pair(" + o + ", " + next(o, 1) + ")", nil
	case isHex.MatchString(o):
		n, err := strconv.ParseInt(o, 0, 64)
		if words == 1 {
			return fmt.Sprintf("0x%xu", uint32(n)), err
		}
		return fmt.Sprintf("0x%xull", uint64(n)), err
	}
	return "", fmt.Errorf("no operand: %s", o)
}

// sum is an address of registers and a constant.
func (c code) sum(text, at string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(text, "+") {
		value, err := c.bits(part, 1, at)
		if err != nil {
			return "", err
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, " + "), nil
}

// memory is a load or a store.
func (c code) memory(r row, at string) (string, error) {
	var kind, space string
	var n int
	fmt.Sscan(r.semantics, &kind, &space, &n)
	if len(c.operands) != 2 {
		return "", fmt.Errorf("%d operands, want 2", len(c.operands))
	}
	register, address := c.operands[0], c.operands[1]
	if kind == "write" {
		register, address = address, register
	}
	m := isMemory.FindStringSubmatch(address)
	if m == nil {
		return "", fmt.Errorf("no address: %s", address)
	}
	where, err := c.sum(m[1], at)
	if base, offset, ok := strings.Cut(m[1], ".64"); ok {
		where, err = c.bits(base, 2, at)
		if offset = strings.TrimPrefix(offset, "+"); offset != "" && err == nil {
			var n int64
			n, err = strconv.ParseInt(offset, 0, 64)
			where += fmt.Sprintf(" + 0x%xull", uint64(n))
		}
	}
	if err != nil {
		return "", err
	}
	call := fmt.Sprintf("q = t.%s_%s(%s, %d, %s);", kind, space, where, n, at)
	if kind == "read" {
		text := "{ const uint8_t *" + call
		if n == 1 {
			text += " const uint32_t w0 = *q;"
		}
		for i := range n / 4 { // all before the first register changes, which may be the address
			text += fmt.Sprintf(" const uint32_t w%d = load<uint32_t>(q + %d);", i, 4*i)
		}
		for i := range max(1, n/4) {
			if !strings.HasSuffix(register, "Z") {
				text += fmt.Sprintf(" %s = w%d;", next(register, i), i)
			}
		}
		return text + " }", nil
	}
	text := "{ uint8_t *" + call
	for i := range max(1, n/4) {
		value, err := c.bits(next(register, i), 1, at)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf(" store<uint%d_t>(q + %d, %s);", min(8*n, 32), 4*i, value)
	}
	return text + " }", nil
}

// control is an instruction that goes somewhere or waits. A branch that threads take by a
// predicate is noted, so that a barrier knows which of a warp's threads are together.
func (k *sassKernel) control(i int, c code, r row, guard, at string) (string, error) {
	address := (i + 1) * instructionBytes
	text := ""
	switch c.opcode {
	case "BRA", "CALL.REL.NOINC":
		condition := guard
		if len(c.operands) == 2 {
			p, err := predicate(c.operands[0])
			if err != nil {
				return "", err
			}
			condition = strings.TrimPrefix(guard+" && "+p, " && ")
		}
		label, err := k.target(c.operands[len(c.operands)-1])
		if err != nil || condition == "" {
			return "goto " + label + ";", err
		}
		return fmt.Sprintf(
			"{ const bool x = %s; t.branch(%d, x); if (x) goto %s; }", condition, address, label,
		), nil
	case "BRX", "RET.REL.NODEC":
		if len(c.operands) != 1 {
			return "", fmt.Errorf("%d operands, want 1", len(c.operands))
		}
		register, rest, _ := strings.Cut(c.operands[0], " ")
		if !isRegister.MatchString(register) ||
			c.opcode == "BRX" && rest != fmt.Sprintf("-0x%x", address) {
			return "", fmt.Errorf("not the address in a register")
		}
		text = fmt.Sprintf("{ where = %s; goto dispatch; }", register)
		if c.opcode == "BRX" {
			text = fmt.Sprintf(
				"{ where = %s; t.branch((int)where, true); goto dispatch; }", register,
			)
		}
	case "BAR.SYNC.DEFER_BLOCKING":
		if !slices.Equal(c.operands, []string{"0x0"}) {
			return "", fmt.Errorf("only barrier 0 is known")
		}
		fallthrough
	default:
		words := map[string]string{"at": at, "next": strconv.Itoa(address)}
		if len(c.operands) > 0 {
			words["a"] = c.operands[0]
		}
		text = r.filled(words) + ";"
	}
	if guard != "" {
		text = "if (" + guard + ") " + text
	}
	return text, nil
}
