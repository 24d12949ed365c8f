package chat

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Parse reads a template with the white space rules of transformers. Its errors locate the fault
// but do not show the text, which may be another file by mistake.
func Parse(text string) (_ *Template, err error) {
	defer caught(&err)
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("chat template has %d bytes, limit %d", len(text), maxTemplate)
	}
	cfg := config.New()
	cfg.TrimBlocks = true
	if text, err = prepare(text, cfg); err != nil {
		return nil, err
	}
	p := parser.NewParser("chat_template", tokens.LexAll(text, cfg), cfg, nil, &tagSet{})
	root, err := p.Parse()
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", placed(err))
	}
	if t := p.Current(); t != nil && t.Type == tokens.Error {
		return nil, fmt.Errorf("chat template: line %d: unterminated string, comment, bracket or number", t.Line)
	}
	if err := new(checker).all(root.Nodes...); err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return &Template{nodes: root.Nodes}, nil
}

// constant matches the parser's messages that contain nothing of the template.
var constant = regexp.MustCompile(
	`^((Expected|expected|Unexpected EOF|Unbalanced|unbalanced|Malformed|If-condition|Elif-condition|` +
		`Arguments not allowed|Macro-tag|Value name|Only one|filter (name|parameter)|(i|I)nvalid (expression|` +
		`step))[^"]*|[a-z]+ does not accept arguments)$`,
)

var gotten = regexp.MustCompile(`\bgot\b`)

// placed returns the line and the reason of a parser error.
func placed(err error) error {
	for {
		syntax := (*parser.SyntaxError)(nil)
		switch e := err.(type) {
		case *parser.SyntaxError:
			syntax = e
		case interface{ Cause() error }:
			err = e.Cause()
			continue
		}
		switch {
		case syntax != nil && constant.MatchString(syntax.Message) && !gotten.MatchString(syntax.Message):
			return fmt.Errorf("line %d: %s", syntax.Line, syntax.Message)
		case syntax != nil:
			return fmt.Errorf("line %d: not a template", syntax.Line)
		case constant.MatchString(err.Error()) || own(err):
			return err
		}
		return errors.New("not a template")
	}
}
