"""How the controller is asked, called and ordered from outside, and who may see what."""
