package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ChatOptions say how messages become a prompt.
type ChatOptions struct {
	Answer   bool                       // the prompt ends with what begins the model's answer
	Continue bool                       // the answer continues the last message
	Extra    map[string]json.RawMessage // further variables of the template
}

// Limits of chat_template_kwargs: they are decoded and given to the template.
const (
	maxKwargsBytes  = 64 << 10
	maxKwargsValues = 1 << 12
)

// readChat reads what depends on the chat template.
func (r *Request) readChat(b *body) error {
	on, err := flag("add_generation_prompt", b.AddGenerationPrompt, true)
	if err != nil {
		return err
	}
	r.Template.Answer = on
	if r.Template.Continue, err = flag("continue_final_message", b.ContinueFinalMessage, false); err != nil {
		return err
	}
	if err := r.readKwargs(b.ChatTemplateKwargs); err != nil {
		return err
	}
	switch {
	case !r.Chat && !r.Template.Answer:
		return onlyChat("add_generation_prompt")
	case !r.Chat && r.Template.Continue:
		return onlyChat("continue_final_message")
	case !r.Chat && len(r.Template.Extra) > 0:
		return onlyChat("chat_template_kwargs")
	case r.Template.Continue && r.Template.Answer:
		return Invalid("continue_final_message", "continue_final_message goes with add_generation_prompt: false")
	case r.Template.Continue && r.Messages[len(r.Messages)-1].blank():
		return Invalid("continue_final_message", "the final message has no content to continue")
	case r.Chat && b.Echo:
		return Invalid("echo", "echo of a chat is not supported; the client has the messages")
	}
	return nil
}

func onlyChat(name string) error {
	return Invalid(name, name+" goes with messages; a prompt has no template")
}

// readKwargs reads the variables that the client gives to the template.
func (r *Request) readKwargs(raw json.RawMessage) error {
	const name = "chat_template_kwargs"
	switch n := values(raw); {
	case absent(raw):
		return nil
	case len(raw) > maxKwargsBytes || n > maxKwargsValues:
		return Invalid(name, fmt.Sprintf("%s has %d bytes and %d values; at most %d and %d are taken",
			name, len(raw), n, maxKwargsBytes, maxKwargsValues))
	case json.Unmarshal(raw, &r.Template.Extra) != nil:
		return Invalid(name, name+" must be an object")
	}
	for key := range r.Template.Extra {
		switch {
		case key == "messages", key == "tools", key == "documents", key == "chat_template", key == "tokenize",
			key == "add_generation_prompt", key == "continue_final_message", strings.HasSuffix(key, "_token"):
			return Invalid(name, fmt.Sprintf("%s cannot set %s", name, clip(key)))
		}
	}
	return nil
}

// flag reads true or false; absent stands for none.
func flag(name string, raw json.RawMessage, none bool) (bool, error) {
	switch {
	case absent(raw):
		return none, nil
	case equal(raw, "true"), equal(raw, "false"):
		return raw[0] == 't', nil
	}
	return false, Invalid(name, name+" must be true or false")
}
