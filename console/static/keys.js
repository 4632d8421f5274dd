// Keys for those who like them; everything that they do, links and buttons do too.
export {};
