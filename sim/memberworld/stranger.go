package memberworld

// strangers are the ways of somebody who is no member.
var strangers = []string{"asks"}

// intrude has somebody who is no member speak to a host's port for members.
func (c *cluster) intrude(h *host, how string) {}
