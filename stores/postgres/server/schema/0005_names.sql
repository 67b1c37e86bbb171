-- A namespace is found by its name, and the number that it gets is random: so no role can take the place of a name that it
-- may not use by inserting a row under the number that this name would get.
CREATE UNIQUE INDEX namespaces_by_one_name ON namespaces (name COLLATE "C");
DROP INDEX namespaces_by_name;
