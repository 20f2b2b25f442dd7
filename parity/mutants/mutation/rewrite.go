package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// These operators have gremlins' names.
const (
	arithmetic  = "ARITHMETIC_BASE"
	boundary    = "CONDITIONALS_BOUNDARY"
	negation    = "CONDITIONALS_NEGATION"
	step        = "INCREMENT_DECREMENT"
	negative    = "INVERT_NEGATIVES"
	logical     = "INVERT_LOGICAL"
	loop        = "INVERT_LOOPCTRL"
	assignment  = "INVERT_ASSIGNMENTS"
	bitwise     = "INVERT_BITWISE"
	bitwiseSelf = "INVERT_BWASSIGN"
	selfless    = "REMOVE_SELF_ASSIGNMENTS"
)

// A mutant is one change of the source; its place in the list is the number that chooses it.
type mutant struct {
	Operator, File string
	Line, Column   int
	status         string
}

// A swap is what stands in an operator's place in a mutant, and the names of that change in an
// expression and in an assignment.
type swap struct {
	by                     token.Token
	expression, assignment string
}

var swaps = map[token.Token]swap{
	token.ADD:     {token.SUB, arithmetic, assignment},
	token.SUB:     {token.ADD, arithmetic, assignment},
	token.MUL:     {token.QUO, arithmetic, assignment},
	token.QUO:     {token.MUL, arithmetic, assignment},
	token.REM:     {token.MUL, arithmetic, assignment},
	token.AND:     {token.OR, bitwise, bitwiseSelf},
	token.OR:      {token.AND, bitwise, bitwiseSelf},
	token.XOR:     {token.AND, bitwise, bitwiseSelf},
	token.AND_NOT: {token.AND, bitwise, bitwiseSelf},
	token.SHL:     {token.SHR, bitwise, bitwiseSelf},
	token.SHR:     {token.SHL, bitwise, bitwiseSelf},
}

var names = map[token.Token]string{
	token.ADD:     "ADD",
	token.SUB:     "SUB",
	token.MUL:     "MUL",
	token.QUO:     "QUO",
	token.REM:     "REM",
	token.AND:     "AND",
	token.OR:      "OR",
	token.XOR:     "XOR",
	token.AND_NOT: "ANDNOT",
	token.SHL:     "SHL",
	token.SHR:     "SHR",
	token.LSS:     "LSS",
	token.LEQ:     "LEQ",
	token.GTR:     "GTR",
	token.GEQ:     "GEQ",
}

//go:embed chosen.tmpl
var chosen string

// chooser is the file that is added to a package: what chooses among so many mutants.
func chooser(name string, count int) string {
	var b strings.Builder
	b.WriteString(
		strings.NewReplacer("PACKAGE", name, "COUNT", fmt.Sprint(max(count, 1))).Replace(chosen),
	)
	for _, op := range slices.Sorted(maps.Keys(swaps)) {
		kind, parameters, second := "T mutantInteger", "a, b T", "T"
		switch op {
		case token.ADD, token.SUB, token.MUL, token.QUO:
			kind = "T mutantNumber"
		case token.SHL, token.SHR:
			kind, parameters, second = "T, U mutantInteger", "a T, b U", "U"
		}
		fmt.Fprintf(
			&b, "\nfunc mutant%s[%s](i int, %s) T {\n\tif mutantOn(i) {\n\t\treturn a %s "+
				"b\n\t}\n\treturn a %s b\n}\n",
			names[op], kind, parameters, swaps[op].by, op,
		)
		without := ""
		if second == "T" {
			without = "\n\tif mutantOn(without) {\n\t\t*a = b\n\t\treturn\n\t}"
		}
		fmt.Fprintf(
			&b,
			"\nfunc mutant%sTo[%s](i, without int, a *T, b %s) {%s\n\t*a = mutant%s(i, *a, b)\n}\n",
			names[op], kind, second, without, names[op],
		)
	}
	return b.String()
}

// An edit puts text in the place of bytes of a file. Where two insert at one place, what ends
// an inner expression stands before what ends the outer one, and beginnings the other way.
type edit struct {
	from, to int
	text     string
	order    int
}

// A rewriter makes of a package's files one that has all mutants in it. No line moves.
type rewriter struct {
	fset    *token.FileSet
	info    *types.Info
	pkg     *types.Package
	without map[place]bool // what does not compile
	mutants []mutant
	file    string // from the module's root
	edits   []edit
	order   int

	operators string            // which are asked for
	text      []byte            // the file's
	imports   map[string]string // the names that packages have in it, by path
	fixed     map[ast.Node]bool // numbers that are left
}

// Families of operators, each with rows of its own in the ledger.
const (
	ofGremlins   = "gremlins"
	ofOmissions  = "omissions"
	ofConfusions = "confusions"
	ofAll        = "all"
)

var families = []string{ofGremlins, ofOmissions, ofConfusions}

// rewrite returns a file with its mutants in it.
func (r *rewriter) rewrite(file *ast.File, name string, text []byte) string {
	r.file, r.edits, r.text = name, nil, text
	r.imports, r.fixed = map[string]string{}, map[ast.Node]bool{}
	for _, spec := range file.Imports {
		object := r.info.Implicits[spec]
		if spec.Name != nil {
			object = r.info.Defs[spec.Name]
		}
		if p, ok := object.(*types.PkgName); ok {
			r.imports[p.Imported().Path()] = p.Name()
		}
	}
	ast.Inspect(file, r.node)
	slices.SortStableFunc(r.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.order, b.order))
	})
	var b strings.Builder
	at := 0
	for _, e := range r.edits {
		b.Write(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.Write(text[at:])
	return b.String()
}

// A place is a line that is left as it is, or left so by one operator only.
type place struct {
	file     string
	line     int
	operator string
}

func (r *rewriter) left(n ast.Node) bool {
	_, jump := n.(*ast.BranchStmt)
	at := n.Pos()
	switch n := n.(type) {
	case *ast.BinaryExpr:
		at = n.OpPos
	case *ast.IncDecStmt:
		at = n.TokPos
	case *ast.AssignStmt:
		at = n.TokPos
	}
	line := r.fset.Position(at).Line
	return r.without[place{r.file, line, ""}] || jump && r.without[place{r.file, line, loop}]
}

// node notes what becomes of a node; false if nothing in it can be another.
func (r *rewriter) node(n ast.Node) bool {
	into := true
	switch n := n.(type) {
	case nil:
		return true
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false
	case *ast.BinaryExpr:
		into = r.info.Types[n].Value == nil
	}
	if r.asks(ofOmissions) {
		into = r.omit(n) && into
	}
	if r.asks(ofConfusions) {
		r.confuse(n)
	}
	if r.asks(ofGremlins) && !r.left(n) {
		into = r.change(n) && into
	}
	return into
}

func (r *rewriter) asks(family string) bool { return r.operators == family || r.operators == ofAll }

// change notes what gremlins' operators make of a node.
func (r *rewriter) change(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return r.binary(n)
	case *ast.UnaryExpr:
		return r.unary(n)
	case *ast.IncDecStmt:
		if r.number(n.X) && r.addressable(n.X) {
			r.wrap(n, fmt.Sprintf("mutant%s(%d, &(",
				map[token.Token]string{token.INC: "INC", token.DEC: "DEC"}[n.Tok], r.add(step,
					n.TokPos)), "")
			r.replace(n.TokPos, 2, "))")
		}
	case *ast.AssignStmt:
		r.assign(n)
	case *ast.BranchStmt:
		r.branch(n)
	}
	return true
}

func (r *rewriter) binary(n *ast.BinaryExpr) bool {
	value := r.info.Types[n].Value
	if value != nil {
		return r.constant(n, value)
	}
	switch n.Op {
	case token.EQL, token.NEQ:
		r.wrap(n, fmt.Sprintf("(mutantOn(%d) != (", r.add(negation, n.OpPos)), "))")
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if r.ordered(n.X) && r.ordered(n.Y) {
			r.call(
				n,
				fmt.Sprintf(
					"mutant%s(%d, %d, ", names[n.Op], r.add(boundary, n.OpPos),
					r.add(negation, n.OpPos),
				),
			)
		}
	case token.LAND, token.LOR:
		i := r.add(logical, n.OpPos)
		r.wrap(n, fmt.Sprintf("(mutantOn(%d) != (((", i), fmt.Sprintf(") != mutantOn(%d))))", i))
		r.replace(n.OpPos, 2, fmt.Sprintf(") != mutantOn(%d)) %s ((", i, n.Op))
	default:
		if s, ok := swaps[n.Op]; ok && r.number(n) {
			head := fmt.Sprintf("mutant%s(%d, ", names[n.Op], r.add(s.expression, n.OpPos))
			if n.Op != token.SHL && n.Op != token.SHR || r.info.Types[n.X].Value == nil {
				r.call(n, head)
				break
			}
			r.wrap(n, head+r.typeOf(n)+"(", ")") // its first operand has no type of its own
			r.replace(n.OpPos, len(n.Op.String()), "),")
		}
	}
	return true
}

// constant is an expression that is computed when the program is compiled: only integers, of
// which a mutant's operands are themselves.
func (r *rewriter) constant(n *ast.BinaryExpr, value constant.Value) bool {
	s, ok := swaps[n.Op]
	if !ok || value.Kind() != constant.Int || !r.is(n, types.IsInteger) {
		return false
	}
	head := fmt.Sprintf("mutant%s(%d, %s(", names[n.Op], r.add(s.expression, n.OpPos), r.typeOf(n))
	r.wrap(n, head, ")")
	r.replace(n.OpPos, len(n.Op.String()), "),")
	return false
}

func (r *rewriter) unary(n *ast.UnaryExpr) bool {
	if n.Op != token.SUB || !r.number(n) {
		return true
	}
	i := r.add(negative, n.OpPos)
	if r.info.Types[n].Value == nil {
		r.wrap(n, fmt.Sprintf("mutantNEG(%d, ", i), ")")
		r.replace(n.OpPos, 1, "")
		return true
	}
	r.wrap(n, fmt.Sprintf("mutantNEG(%d, %s(", i, r.typeOf(n)), "))")
	r.replace(n.OpPos, 1, "")
	return false
}

// assign has the assignments that compute.
func (r *rewriter) assign(n *ast.AssignStmt) {
	op := n.Tok + token.ADD - token.ADD_ASSIGN
	s, ok := swaps[op]
	if !ok || !r.number(n.Lhs[0]) || !r.addressable(n.Lhs[0]) {
		return
	}
	by, without := r.add(s.assignment, n.TokPos), -1
	if op != token.SHL && op != token.SHR {
		without = r.add(selfless, n.TokPos)
	}
	r.wrap(n, fmt.Sprintf("mutant%sTo(%d, %d, &(", names[op], by, without), ")")
	r.replace(n.TokPos, len(n.Tok.String()), "),")
}

func (r *rewriter) branch(n *ast.BranchStmt) {
	other := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]
	if other == "" {
		return
	}
	if n.Label != nil {
		other += " " + n.Label.Name
	}
	r.wrap(n, fmt.Sprintf("if mutantOn(%d) { %s }; ", r.add(loop, n.TokPos), other), "")
}

// add numbers a mutant.
func (r *rewriter) add(operator string, at token.Pos) int {
	p := r.fset.Position(at)
	r.mutants = append(
		r.mutants, mutant{Operator: operator, File: r.file, Line: p.Line, Column: p.Column},
	)
	return len(r.mutants) - 1
}

func (r *rewriter) wrap(n ast.Node, before, after string) {
	r.order++
	from, to := r.fset.Position(n.Pos()).Offset, r.fset.Position(n.End()).Offset
	r.edits = append(r.edits, edit{from, from, before, r.order})
	if after != "" {
		r.edits = append(r.edits, edit{to, to, after, -r.order})
	}
}

func (r *rewriter) call(n *ast.BinaryExpr, head string) {
	r.wrap(n, head, ")")
	r.replace(n.OpPos, len(n.Op.String()), ",")
}

func (r *rewriter) replace(at token.Pos, bytes int, text string) {
	from := r.fset.Position(at).Offset
	r.edits = append(r.edits, edit{from, from + bytes, text, r.order})
}

func (r *rewriter) is(x ast.Expr, kind types.BasicInfo) bool {
	t := r.info.TypeOf(x)
	if t == nil {
		return false
	}
	if p, ok := t.(*types.TypeParam); ok {
		return !strings.Contains(
			p.Constraint().Underlying().String(), "string",
		) // if it is none, it does not compile
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&kind != 0
}

func (r *rewriter) number(x ast.Expr) bool {
	return r.is(x, types.IsInteger|types.IsFloat)
}

func (r *rewriter) ordered(x ast.Expr) bool {
	return r.is(x, types.IsInteger|types.IsFloat|types.IsString)
}

func (r *rewriter) typeOf(x ast.Expr) string {
	return types.TypeString(types.Default(r.info.TypeOf(x)), func(p *types.Package) string {
		if p == r.pkg {
			return ""
		}
		return p.Name()
	})
}

// addressable is all that can be assigned to but an element of a map.
func (r *rewriter) addressable(x ast.Expr) bool {
	index, ok := ast.Unparen(x).(*ast.IndexExpr)
	if !ok {
		return true
	}
	_, ok = r.info.TypeOf(index.X).Underlying().(*types.Map)
	return !ok
}
