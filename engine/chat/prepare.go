package chat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// maxNesting is how many brackets may be open at once: gonja's parser uses much stack for each.
const maxNesting = 64

// prepare rewrites a template where gonja 2.9 does otherwise than Jinja:
//   - messages[-n] becomes messages[-n:][0], for gonja finds nothing where there are exactly n
//   - blanks before a block are cut where they begin a line; gonja would cut them within a line, too
func prepare(text string, cfg *config.Config) (string, error) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text) // as the lexer does, which counts positions thereafter
	var all []*tokens.Token
	for s := tokens.LexAll(text, cfg); !s.End(); {
		all = append(all, s.Next())
	}
	var out strings.Builder
	done, depth := 0, 0
	for i, token := range all {
		switch token.Type {
		case tokens.BlockBegin, tokens.CommentBegin:
			cut := max(done, lineStart(text, token.Pos))
			out.WriteString(text[done:cut])
			done = token.Pos
		case tokens.LeftParenthesis, tokens.LeftBracket, tokens.LeftBrace:
			if depth++; depth > maxNesting {
				return "", fmt.Errorf("chat template: line %d: more than %d brackets are open", token.Line, maxNesting)
			}
		case tokens.RightParenthesis, tokens.RightBracket, tokens.RightBrace:
			depth--
		}
		if n := fromEnd(all[:i+1]); n > 0 {
			out.WriteString(text[done:token.Pos])
			done = token.Pos
			if n == 1 {
				out.WriteString(":][0")
			} else {
				fmt.Fprintf(&out, ":-%d][0", n-1)
			}
		}
	}
	return out.String() + text[done:], nil
}

// lineStart is where the line of a block begins if nothing but blanks is before the block, else the block's own place.
func lineStart(text string, block int) int {
	before := strings.TrimRight(text[:block], " \t")
	keep := len(text) > block+2 && text[block+2] == '+'
	if keep || before != "" && !strings.HasSuffix(before, "\n") {
		return block
	}
	return len(before)
}

// fromEnd is n where tokens end in [-n] after what can be indexed, else 0.
func fromEnd(all []*tokens.Token) int {
	if len(all) < 5 {
		return 0
	}
	t := all[len(all)-5:]
	if t[1].Type != tokens.LeftBracket || t[2].Type != tokens.Subtraction || t[3].Type != tokens.Integer || t[4].Type != tokens.RightBracket {
		return 0
	}
	switch t[0].Type {
	case tokens.Name, tokens.String, tokens.RightBracket, tokens.RightParenthesis:
		n, _ := strconv.Atoi(t[3].Val)
		return n
	}
	return 0
}
