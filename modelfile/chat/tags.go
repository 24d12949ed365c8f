package chat

import (
	"errors"
	"fmt"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// setTag is {% set %}, with a value or a block.
type setTag struct {
	at
	target, value, condition, alternative nodes.Expression
	body                                  *nodes.Wrapper
}

type withTag struct {
	at
	names  []string
	values []nodes.Expression
	body   *nodes.Wrapper
}

type filterTag struct {
	at
	filters []*nodes.FilterCall
	body    *nodes.Wrapper
}

// textTag renders its content: {% raw %}, and {% generation %}, which marks assistant text for
// training.
type textTag struct {
	at
	body *nodes.Wrapper
}

// at makes a tag a node of the parser.
type at struct{ token *tokens.Token }

func (a at) Position() *tokens.Token { return a.token }
func (a at) String() string          { return "tag" }

// tagParsers parse the supported tags. gonja's own parsers are used for tags whose nodes export all
// their fields.
var tagParsers = func() map[string]parser.ControlStructureParser {
	all := map[string]parser.ControlStructureParser{
		"set": parseSet, "with": parseWith, "filter": parseFilter, "raw": parseText("endraw"),
		"generation": parseText("endgeneration"),
	}
	for _, name := range []string{"if", "for", "macro", "call", "do", "break", "continue"} {
		all[name], _ = builtins.ControlStructures.Get(name)
	}
	return all
}()

// refusedTags are the other tags of Jinja. Some of them would read other templates, and so files.
var refusedTags = map[string]bool{
	"include":    true,
	"import":     true,
	"from":       true,
	"extends":    true,
	"block":      true,
	"autoescape": true,
	"trans":      true,
}

// tagSet tracks the nesting of the tags of a template during parsing.
type tagSet struct{ depth int }

var (
	errTags    = fmt.Errorf("more than %d tags are open", maxNesting)
	errUnknown = errors.New("unknown tag, or an end tag without a start")
)

func (t *tagSet) Get(name string) (parser.ControlStructureParser, bool) {
	parse, ok := tagParsers[name]
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		switch {
		case refusedTags[name]:
			return nil, tagError{"unsupported tag " + name}
		case !ok:
			return nil, errUnknown
		}
		if t.depth++; t.depth > maxNesting {
			return nil, errTags
		}
		defer func() { t.depth-- }()
		line := max(args.Current().Line, p.Current().Line)
		tag, err := parse(p, args)
		if syntax := (*parser.SyntaxError)(nil); errors.As(err, &syntax) &&
			syntax.Line == 0 { // the position is the end of the tag
			syntax.Line = line
		}
		return tag, err
	}, true
}

func parseText(end string) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		place := p.Current()
		body, _, err := p.WrapUntil(end)
		return &textTag{at{place}, body}, err
	}
}

func parseSet(p, args *parser.Parser) (nodes.ControlStructure, error) {
	t := &setTag{at: at{p.Current()}}
	var err error
	if t.target, err = args.ParseVariableOrLiteral(); err != nil {
		return nil, err
	}
	switch t.target.(type) {
	case *nodes.Name, *nodes.GetItem, *nodes.GetAttribute:
	default:
		return nil, tagError{"set needs a name"}
	}
	if args.Match(tokens.Assign) == nil {
		if !args.End() {
			return nil, args.Error("Expected '='.", args.Current())
		}
		t.body, _, err = p.WrapUntil("endset")
		return t, err
	}
	if t.value, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	if t.condition, t.alternative, err = args.ParseCondition(); err != nil {
		return nil, err
	}
	if !args.End() || t.condition != nil && t.alternative == nil {
		return nil, args.Error("Malformed 'set' tag.", args.Current())
	}
	return t, nil
}

func parseWith(p, args *parser.Parser) (nodes.ControlStructure, error) {
	t := &withTag{at: at{p.Current()}}
	for !args.End() {
		name := args.Match(tokens.Name)
		if name == nil || args.Match(tokens.Assign) == nil {
			return nil, args.Error("Expected a name and '='.", args.Current())
		}
		value, err := args.ParseExpression()
		if err != nil {
			return nil, err
		}
		t.names, t.values = append(t.names, name.Val), append(t.values, value)
		if args.Match(tokens.Comma) == nil && !args.End() {
			return nil, args.Error("Expected ','.", args.Current())
		}
	}
	var err error
	t.body, _, err = p.WrapUntil("endwith")
	return t, err
}

func parseFilter(p, args *parser.Parser) (nodes.ControlStructure, error) {
	t := &filterTag{at: at{p.Current()}}
	for {
		call, err := args.ParseFilter()
		if err != nil {
			return nil, err
		}
		t.filters = append(t.filters, call)
		if args.Match(tokens.Pipe) == nil {
			break
		}
	}
	if !args.End() {
		return nil, args.Error("Malformed 'filter' tag.", args.Current())
	}
	var err error
	t.body, _, err = p.WrapUntil("endfilter")
	return t, err
}

// own reports whether an error was created by the parsers in this file. Such errors quote nothing
// of the template.
func own(err error) bool {
	_, refused := err.(tagError)
	return refused || err == errTags || err == errUnknown
}

type tagError struct{ text string }

func (e tagError) Error() string { return e.text }
