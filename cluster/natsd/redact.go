package natsd

import (
	"errors"
	"os"
	"regexp"
	"strings"
)

var (
	// secretField matches a secret field of a users file with its value.
	secretField = regexp.MustCompile(
		`(?i)(?:password|pass|token|seed)["']?\s*[:=]?\s*(?:"([^"]*)|'([^']*)|([^\s"',}\])]+))`,
	)
	// secretPattern matches the seed of an nkey, or a JWT.
	secretPattern = regexp.MustCompile(`\bS[ACNOUXP][A-Z2-7]{20,}|\beyJ[A-Za-z0-9_.-]{20,}`)
)

// redact returns an error about a users file without the file's passwords, tokens and seeds, which
// nats-server may quote.
func redact(file string, err error) error {
	text := err.Error()
	content, _ := os.ReadFile(file) // a file that cannot be read is not quoted in errors
	for _, field := range secretField.FindAllStringSubmatch(string(content), -1) {
		for _, secret := range field[1:] {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "[secret]")
			}
		}
	}
	return errors.New(secretPattern.ReplaceAllString(text, "[secret]"))
}
