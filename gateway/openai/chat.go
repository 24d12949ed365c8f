package openai

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ChatOptions control how a chat template renders messages.
type ChatOptions struct {
	AddGenerationPrompt  bool                       // end the prompt with the start of the model's turn
	ContinueFinalMessage bool                       // let the model continue the last message
	Kwargs               map[string]json.RawMessage // additional template variables
}

// Limits of chat_template_kwargs, which are decoded and passed to the template.
const (
	maxKwargsBytes  = 64 << 10
	maxKwargsValues = 1 << 12
)

// readChat reads the fields that depend on the chat template.
func (r *Request) readChat(b *body) error {
	on, err := boolField("add_generation_prompt", b.AddGenerationPrompt, true)
	if err != nil {
		return err
	}
	r.Template.AddGenerationPrompt = on
	r.Template.ContinueFinalMessage, err = boolField("continue_final_message", b.ContinueFinalMessage, false)
	if err != nil {
		return err
	}
	if err := r.readKwargs(b.ChatTemplateKwargs); err != nil {
		return err
	}
	switch {
	case !r.Chat && !r.Template.AddGenerationPrompt:
		return chatOnly("add_generation_prompt")
	case !r.Chat && r.Template.ContinueFinalMessage:
		return chatOnly("continue_final_message")
	case !r.Chat && len(r.Template.Kwargs) > 0:
		return chatOnly("chat_template_kwargs")
	case r.Template.ContinueFinalMessage && r.Template.AddGenerationPrompt:
		return Invalid("continue_final_message", "continue_final_message requires add_generation_prompt: false")
	case r.Template.ContinueFinalMessage && r.Messages[len(r.Messages)-1].blank():
		return Invalid("continue_final_message", "the final message has no content to continue")
	case r.Chat && b.Echo:
		return Invalid("echo", "echo is not supported for chats")
	}
	return nil
}

func chatOnly(name string) error {
	return Invalid(name, name+" requires messages; prompts use no chat template")
}

// readKwargs reads the client's template variables.
func (r *Request) readKwargs(raw json.RawMessage) error {
	const name = "chat_template_kwargs"
	switch n := countValues(raw); {
	case isNull(raw):
		return nil
	case len(raw) > maxKwargsBytes || n > maxKwargsValues:
		return Invalid(name, fmt.Sprintf("%s has %d bytes and %d values; at most %d and %d are allowed",
			name, len(raw), n, maxKwargsBytes, maxKwargsValues))
	case json.Unmarshal(raw, &r.Template.Kwargs) != nil:
		return Invalid(name, name+" must be an object")
	}
	for key := range r.Template.Kwargs {
		switch {
		case key == "messages", key == "tools", key == "documents", key == "chat_template", key == "tokenize",
			key == "add_generation_prompt", key == "continue_final_message", strings.HasSuffix(key, "_token"):
			return Invalid(name, fmt.Sprintf("%s cannot set %s", name, clipText(key)))
		}
	}
	return nil
}

// boolField returns the value of a field, or defaultValue if it is missing or null.
func boolField(name string, raw json.RawMessage, defaultValue bool) (bool, error) {
	switch {
	case isNull(raw):
		return defaultValue, nil
	case equalJSON(raw, "true"), equalJSON(raw, "false"):
		return raw[0] == 't', nil
	}
	return false, Invalid(name, name+" must be true or false")
}
