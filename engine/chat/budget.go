package chat

import (
	"fmt"

	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

const (
	maxSteps = 1 << 18 // rounds of loops and calls of macros, in one rendering
	maxDepth = 128     // macros and loops within one another
)

// budget is what one rendering may still do. A template that calls itself without end would otherwise end the process.
type budget struct{ steps, depth int }

// budgetName is no name that a template could write.
const budgetName = "#budget"

func budgetOf(e *exec.Environment) *budget {
	b, _ := e.Context.Get(budgetName)
	return b.(*budget)
}

func (b *budget) step() error {
	if b.steps++; b.steps > maxSteps {
		return fmt.Errorf("more than %d rounds of its loops", maxSteps)
	}
	return nil
}

// scope is the body of a loop or a macro, which counts each time that it is rendered.
type scope struct{ body *nodes.Wrapper }

func (s *scope) Position() *tokens.Token { return s.body.Location }
func (s *scope) String() string          { return "scope" }

func (s *scope) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	b := budgetOf(r.Environment)
	if err := b.step(); err != nil {
		return err
	}
	if b.depth++; b.depth > maxDepth {
		return fmt.Errorf("its macros and loops are more than %d deep", maxDepth)
	}
	defer func() { b.depth-- }()
	return nodes.Walk(r, s.body)
}

// bounded puts the body of what is parsed into a scope.
func bounded(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		parsed, err := parse(p, args)
		switch c := parsed.(type) {
		case *controls.ForControlStructure:
			c.BodyWrapper = scoped(c.BodyWrapper)
		case *controls.MacroControlStructure:
			c.Wrapper = scoped(c.Wrapper)
		}
		return parsed, err
	}
}

func scoped(body *nodes.Wrapper) *nodes.Wrapper {
	outer := *body
	outer.Nodes = []nodes.Node{&nodes.ControlStructureBlock{Location: body.Location, Name: "scope", ControlStructure: &scope{body}}}
	return &outer
}

// generationParser parses {% generation %}, which marks for training what the assistant said. It renders what is in it.
func generationParser(p, args *parser.Parser) (nodes.ControlStructure, error) {
	body, _, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	return &scope{body}, nil
}
