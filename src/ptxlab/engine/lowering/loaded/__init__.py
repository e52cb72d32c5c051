"""What threads load, and store or multiply as it is: which registers hold it, and what compiled code notes of it for observers."""
