PARSER = "acme_r1"
