-- The rules that people gave, with which sessions begin.
CREATE INDEX passages_of_rules ON passages (namespace, step) WHERE kind = 'rule';
