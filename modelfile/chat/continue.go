package chat

import (
	"errors"
	"strings"
)

// Continued cuts a rendered conversation after the content of its final message, so that the model
// continues that. It does as apply_chat_template of transformers with continue_final_message.
func Continued(text, final string) (string, error) {
	core := strings.TrimSpace(final)
	at := strings.LastIndex(text, core)
	if core == "" || at < 0 {
		return "", errors.New("the chat template does not write the content of the final message as it is")
	}
	if whole := strings.TrimLeft(final, " \t\r\n"); strings.HasPrefix(text[at:], whole) {
		return text[:at+len(whole)], nil
	}
	return text[:at+len(core)], nil // the template trims the content
}
